"""Which firings leave spans: a share that every process computes alike, or those callers ask for, within bounds."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from jobs.engine.traces import trace_of
from jobs.telemetry import traces
from jobs.telemetry.traces import spans as recording
from jobs.telemetry.traces.spans import MAX_A_SECOND, MAX_ASKED_FOR
from tests.engine.spans.recorded import UNSAMPLED, Spans
from tests.interfaces.api.test_traces import TRACEPARENT

pytestmark = pytest.mark.django_db(transaction=True)


def an_attempt(number: int, trace: str | None = None, tenant: str = "acme") -> Any:
    ids = {"id": UUID(int=number << 64 | 1 << 63), "attempt_id": UUID(int=number << 64 | 1 << 63 | 1)}
    return SimpleNamespace(**ids, trace=trace, tenant=tenant, replay_count=0, workflow_run_id=None)


def sampled(rows: list[Any]) -> list[bool]:
    told = [trace_of(row) for row in rows]
    return [trace is not None and trace.is_sampled for trace in told]


class TestSampling:
    def test_takes_its_share_and_each_process_the_same(
        self, record: Callable[..., Spans], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recording, "MAX_A_SECOND", 2000)
        rows = [an_attempt(number) for number in range(2000)]
        record("parentbased_traceidratio", "0.1")
        taken = sampled(rows)
        assert 120 <= sum(taken) <= 280
        record("parentbased_traceidratio", "0.1")
        assert sampled(rows) == taken

    def test_switched_off_takes_none(self, record: Callable[..., Spans]) -> None:
        record("always_off")
        assert not any(sampled([an_attempt(1), an_attempt(2, TRACEPARENT)]))

    def test_by_parents_heeds_them_and_by_ratio_alone_does_not(self, record: Callable[..., Spans]) -> None:
        attempts = [an_attempt(1, TRACEPARENT), an_attempt(2, UNSAMPLED), an_attempt(3)]
        record("parentbased_always_off")
        assert sampled(attempts) == [True, False, False]
        record("parentbased_traceidratio", "0")
        assert sampled(attempts) == [True, False, False]
        record("traceidratio", "1")
        assert sampled(attempts) == [True, True, True]
        record("always_on")
        assert sampled(attempts) == [True, True, True]

    def test_agrees_with_the_sdks_own(
        self, record: Callable[..., Spans], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recording, "MAX_A_SECOND", 2000)
        record("traceidratio", "0.3")
        recorder, ids = traces.recorder(), random.Random(7)
        assert recorder is not None
        for _ in range(500):
            trace_id = ids.getrandbits(128)
            theirs = recorder._provider.sampler.should_sample(None, trace_id, "firing").decision.is_sampled()
            assert recorder.samples(f"{trace_id:032x}", caller=None, tenant="acme") == theirs

    def test_stops_where_a_process_has_recorded_enough(
        self, record: Callable[..., Spans], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recording, "time", SimpleNamespace(monotonic=lambda: 1.5))
        record()
        assert sum(sampled([an_attempt(number) for number in range(500)])) == MAX_A_SECOND

    def test_of_a_tenant_that_marks_all_its_calls_leaves_room_for_others(
        self, record: Callable[..., Spans], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recording, "time", SimpleNamespace(monotonic=lambda: 1.5))
        record("parentbased_traceidratio", "1")
        flood = sampled([an_attempt(number, TRACEPARENT) for number in range(500)])
        assert (sum(flood), all(flood[:MAX_ASKED_FOR])) == (MAX_ASKED_FOR, True)
        assert sampled([an_attempt(1, TRACEPARENT, "other"), an_attempt(2)]) == [True, True]
        monkeypatch.setattr(recording, "time", SimpleNamespace(monotonic=lambda: 2.5))
        assert sampled([an_attempt(1, TRACEPARENT)]) == [True]
