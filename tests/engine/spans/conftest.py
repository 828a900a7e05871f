"""A recorder of spans that keeps its spans instead of sending them."""

from collections.abc import Callable, Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jobs.telemetry import traces
from jobs.telemetry.traces.spans import Recorder
from tests.engine.spans.recorded import Spans


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Spans]]:
    """Record spans under a sampler. Returns a function that returns the recorded spans."""
    made: list[Recorder] = []

    def begin(sampler: str = "", ratio: str = "") -> Spans:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler or "parentbased_always_on")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", ratio)
        exporter = InMemorySpanExporter()
        made.append(Recorder(exporter))
        monkeypatch.setattr(traces, "_on", True)
        monkeypatch.setattr(traces, "_recorder", made[-1])

        def recorded() -> list[ReadableSpan]:
            made[-1].flush()
            return list(exporter.get_finished_spans())

        return recorded

    yield begin
    for recorder in made:
        recorder.close()


@pytest.fixture
def spans(record: Callable[..., Spans]) -> Spans:
    return record()
