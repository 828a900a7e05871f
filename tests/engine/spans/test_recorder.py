"""A recorder that fails, a collector that is away, and neither at all: firings run as usual."""

import os
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.engine import endings
from jobs.telemetry import traces
from jobs.telemetry.traces import spans as recording
from jobs.telemetry.traces.spans import CLOSE_SECONDS, Recorder
from jobs.telemetry.traces.w3c import TraceContext, read
from stage.waiting import patience
from tests import factories
from tests.engine.conftest import Perform, queued
from tests.engine.spans.recorded import STEPS, Lines, Register, Spans, names
from tests.interfaces.api.test_traces import TRACEPARENT

pytestmark = pytest.mark.django_db(transaction=True)


class TestARecorderThatFails:
    def test_costs_no_outcome(
        self, perform: Perform, handler: Register, spans: Spans, lines: Lines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> None:
            raise RuntimeError("broken")

        monkeypatch.setattr(Recorder, "record", fail)
        triggers = [queued(handler(lambda ctx, _: None)) for _ in range(2)]
        assert perform(*triggers) == {"succeeded": 2}
        [line] = [line for line in lines() if line["event"] == "spans not recorded"]
        assert line["error"] == "broken"


def one_span(recorder: Recorder) -> None:
    now = datetime.now(UTC)
    context = read(TRACEPARENT)
    assert isinstance(context, TraceContext)
    recorder.record(context, [recording.Span("firing", "00000000000000a1", "", now, now, {})])


class TestACollector:
    def test_that_is_away_costs_one_line(self, monkeypatch: pytest.MonkeyPatch, lines: Lines) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        recorder = Recorder()
        for _ in range(3):
            one_span(recorder)
            recorder.flush()
        recorder.close()
        [line] = [line for line in lines() if "collector" in line["event"] or "export" in line["event"]]
        assert (line["event"], line["spans"]) == ("collector of traces away", 1)

    def test_that_never_answers_does_not_hold_up_the_end_of_a_process(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
            recorder = Recorder()
            one_span(recorder)
            began = time.monotonic()
            recorder.close()
            assert time.monotonic() - began < 10 * CLOSE_SECONDS * patience


class TestTheEndOfAProcess:
    def test_sends_what_is_left(self, perform: Perform, handler: Register, spans: Spans) -> None:
        perform(queued(handler(lambda ctx, _: None)))
        endings.tell_the_rest()
        perform(queued(handler(lambda ctx, _: None)))
        assert names(spans()) == STEPS


class TestARecorderThatCannotBeHad:
    def test_costs_no_firing_and_is_told_once(
        self, perform: Perform, handler: Register, monkeypatch: pytest.MonkeyPatch, lines: Lines
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")  # less than a batch: the library refuses it
        monkeypatch.setattr(traces, "_on", True)
        monkeypatch.setattr(traces, "_recorder", None)
        for _ in range(2):
            trigger = queued(handler(lambda ctx, _: None))
            perform(trigger)
            assert factories.state_of(trigger)[0] == "succeeded"
        assert [line["event"] for line in lines()].count("traces are off in this process") == 1


class TestSwitchedOff:
    def test_nothing_of_opentelemetry_is_imported(self) -> None:
        """And no trace is reported: an attempt without a caller's trace is part of no trace."""
        script = (
            "import sys, types, django; django.setup()\n"
            "import jobs.api.urls, jobs.tasks, jobs.engine.beat, jobs.engine.worker\n"
            "from jobs.engine.traces import trace_of\n"
            "assert trace_of(types.SimpleNamespace(trace=None)) is None\n"
            # The client of Redis looks for the other OpenTelemetry modules by itself.
            "ours = ('opentelemetry.sdk.trace', 'opentelemetry.exporter', 'opentelemetry.proto')\n"
            "print([name for name in sys.modules if name.startswith(ours)])"
        )
        environment = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
        environment["DJANGO_SETTINGS_MODULE"] = "scheduler_project.settings"
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
