"""Spans of a firing, as a viewer shows them: from when it was due to its end, across all workers of its attempts."""

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from opentelemetry import trace as otel
from opentelemetry.trace import SpanKind, StatusCode

from jobs.engine.reaper import reap_leases
from jobs.engine.traces import trace_of
from jobs.handlers.context import Context
from jobs.models import Trigger, WorkflowRun
from jobs.store import lifecycle
from jobs.telemetry.traces import w3c
from tests import factories
from tests.engine.conftest import Perform, queued
from tests.engine.spans.recorded import (
    CALLERS_SPAN,
    STEPS,
    TWICE,
    UNSAMPLED,
    Lines,
    Register,
    Spans,
    instant,
    named,
    names,
    parent_id,
    span_id,
    trace_ids,
)
from tests.factories import ANYONE, SECOND
from tests.interfaces.api.test_traces import TRACE_ID, TRACEPARENT
from tests.workflows.playing import begin, make_workflow

pytestmark = pytest.mark.django_db(transaction=True)


class TestAFiring:
    def test_is_told_from_when_it_was_due_to_its_end(
        self, perform: Perform, handler: Register, spans: Spans
    ) -> None:
        told: list[Any] = []
        name = handler(lambda ctx, _: told.append(ctx.trace))
        now = factories.now()
        trigger = queued(
            name, due_at=now - 9 * SECOND, created_at=now - 7 * SECOND, queued_at=now - 2 * SECOND
        )
        perform(trigger)
        found = spans()
        assert names(found) == STEPS
        assert len(trace_ids(found)) == 1
        firing = named(found, "firing")
        assert parent_id(firing) == ""
        assert {parent_id(span) for span in found if span is not firing} == {span_id(firing)}
        # Each step begins where the one before it ended; the handler had to wait for its process.
        for before, after in pairwise(found[:3]):
            assert before.end_time == after.start_time
        assert named(found, "handler").start_time >= named(found, "claim").end_time
        assert named(found, "handler").end_time == named(found, "finish").start_time
        assert (firing.start_time, firing.end_time) == (found[0].start_time, named(found, "finish").end_time)
        row, [attempt] = factories.row(trigger), factories.attempts(trigger)
        assert instant(firing.start_time) == row["due_at"]
        assert instant(named(found, "materialize").end_time) == row["created_at"]
        assert instant(named(found, "dispatch").end_time) == row["queued_at"]
        assert instant(named(found, "claim").end_time) == attempt.started_at
        assert abs(instant(firing.end_time) - row["finished_at"]) < 5 * SECOND
        assert (
            dict(firing.attributes or {}).items()
            >= {
                "carillon.trigger_id": str(trigger.id),
                "carillon.job_id": str(trigger.job_id),
                "carillon.job_type": name,
                "carillon.tenant": trigger.job.tenant.slug,
                "carillon.state": "succeeded",
            }.items()
        )
        assert [(told[0].trace_id, told[0].span_id)] == [
            (*trace_ids(found), span_id(named(found, "handler")))
        ]

    def test_that_was_put_on_record_ahead_of_time_does_not_begin_there(
        self, perform: Perform, handler: Register, spans: Spans
    ) -> None:
        """A minute of look-ahead would hide the milliseconds that matter."""
        now = factories.now()
        trigger = queued(handler(lambda ctx, _: None), created_at=now - 60 * SECOND, due_at=now - SECOND)
        perform(trigger)
        materialize = named(spans(), "materialize")
        assert instant(materialize.start_time) == instant(materialize.end_time) == trigger.due_at
        assert str(materialize.attributes["carillon.created_at"]) < f"{now - 50 * SECOND:%Y-%m-%dT%H:%M:%S}"

    def test_of_a_caller_is_part_of_the_callers_trace(
        self, perform: Perform, handler: Register, spans: Spans
    ) -> None:
        perform(queued(handler(lambda ctx, _: None), trace=f"{TRACEPARENT} congo=t61"))
        found = spans()
        assert (trace_ids(found), parent_id(named(found, "firing"))) == ({TRACE_ID}, CALLERS_SPAN)
        assert named(found, "handler").context.trace_state.to_header() == "congo=t61"

    def test_whose_caller_is_not_sampled_leaves_no_span_and_says_so(
        self, perform: Perform, handler: Register, spans: Spans
    ) -> None:
        told: list[Any] = []
        perform(queued(handler(lambda ctx, _: told.append(ctx.trace)), trace=UNSAMPLED))
        assert spans() == []
        assert told[0].traceparent == UNSAMPLED

    def test_that_is_not_sampled_is_in_no_trace(
        self, perform: Perform, handler: Register, record: Callable[..., Spans]
    ) -> None:
        spans, told = record("parentbased_always_off"), list[Any]()
        perform(queued(handler(lambda ctx, _: told.append((ctx.trace, ctx.trace_id)))))
        assert (spans(), told) == ([], [(None, "")])

    def test_of_one_message_has_a_trace_of_its_own(
        self, perform: Perform, handler: Register, spans: Spans
    ) -> None:
        name = handler(lambda ctx, _: time.sleep(0.02), batch_size=3)
        job = factories.make_job(job_type=name)
        perform(*(factories.make_trigger(job, "queued") for _ in range(3)))
        found = spans()
        assert len(trace_ids(found)) == 3
        handlers = sorted((span.start_time, span.end_time) for span in found if span.name == "handler")
        assert all(ended <= began for (_, ended), (began, _) in pairwise(handlers))

    def test_that_is_retried_is_one_trace(self, perform: Perform, handler: Register, spans: Spans) -> None:
        trigger = queued(handler(lambda ctx, _: 1 / 0), retry_policy=TWICE)
        perform(trigger)
        assert names(spans()) == STEPS[:-1]
        Trigger.objects.filter(id=trigger.id).update(state="queued", fence=2, queued_at=factories.now())
        trigger.refresh_from_db()
        perform(trigger)
        found = spans()
        assert names(found) == [*STEPS[:-1], *STEPS[1:]]
        assert len(trace_ids(found)) == 1
        firing = named(found, "firing")
        assert {parent_id(span) for span in found if span is not firing} == {span_id(firing)}
        assert len({span_id(span) for span in found}) == len(found)
        assert firing.start_time == min(span.start_time or 0 for span in found)
        assert (firing.status.status_code, firing.status.description) == (StatusCode.ERROR, "exhausted")
        errors = [span.status.description for span in found if span.name == "handler"]
        assert errors == ["exception"] * 2

    def test_that_is_replayed_begins_a_trace(self, perform: Perform, handler: Register, spans: Spans) -> None:
        trigger = queued(handler(lambda ctx, _: None))
        perform(trigger)
        lifecycle.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id)
        Trigger.objects.filter(id=trigger.id).update(state="queued", fence=2, queued_at=factories.now())
        trigger.refresh_from_db()
        perform(trigger)
        first, again = spans()[:6], spans()[6:]
        assert names(again) == ["dispatch", "claim", "handler", "finish", "firing"]
        assert trace_ids(first).isdisjoint(trace_ids(again))
        assert named(again, "firing").start_time == named(again, "dispatch").start_time

    def test_that_asks_another_program_says_so(
        self, perform: Perform, handler: Register, spans: Spans
    ) -> None:
        perform(queued(handler(lambda ctx, _: None, target=lambda _: "api.example")))
        perform(queued(handler(lambda ctx, _: None, sends_to=lambda _: "queue")))
        kinds = [span.kind for span in spans() if span.name == "handler"]
        assert kinds == [SpanKind.CLIENT, SpanKind.PRODUCER]


class TestALostAttempt:
    def test_is_told_by_whoever_reaps_it(self, handler: Register, spans: Spans) -> None:
        job = factories.make_job(job_type=handler(lambda ctx, _: None), retry_policy=TWICE)
        past = factories.now() - SECOND
        _, attempt = factories.make_running(job, lease_expires_at=past)
        assert reap_leases(leadership=ANYONE, limit=10) == 1
        found = spans()
        assert names(found) == ["materialize", "dispatch", "claim", "handler"]
        lost = named(found, "handler")
        assert (lost.status.description, instant(lost.start_time)) == ("lease_expired", attempt.started_at)

    def test_that_was_the_last_ends_the_firing(self, handler: Register, spans: Spans) -> None:
        job = factories.make_job(job_type=handler(lambda ctx, _: None), delivery="at_most_once")
        factories.make_running(job, lease_expires_at=factories.now() - SECOND, trace=TRACEPARENT)
        reap_leases(leadership=ANYONE, limit=10)
        firing = named(spans(), "firing")
        assert (firing.status.description, trace_ids(spans())) == ("lost", {TRACE_ID})

    def test_is_not_told_again_by_its_worker(self, perform: Perform, handler: Register, spans: Spans) -> None:
        def be_overtaken(ctx: Context, _: Any) -> None:
            Trigger.objects.filter(id=ctx.trigger_id).update(fence=ctx.fence + 1, state="pending")

        perform(queued(handler(be_overtaken)))
        assert spans() == []


class TestWhatAHandlerRecordsItself:
    def test_is_part_of_its_attempt(self, perform: Perform, handler: Register, spans: Spans) -> None:
        current: list[tuple[str, str]] = []

        def note() -> None:
            context = otel.get_current_span().get_span_context()
            current.append((f"{context.trace_id:032x}", f"{context.span_id:016x}"))

        async def aloud(ctx: Context, _: Any) -> None:
            note()

        perform(queued(handler(lambda ctx, _: note()), trace=TRACEPARENT))
        perform(queued(handler(aloud), trace=TRACEPARENT))
        told = [(TRACE_ID, span_id(span)) for span in spans() if span.name == "handler"]
        assert current == told
        assert not otel.get_current_span().get_span_context().is_valid


class TestTasksOfOneRun:
    """Tasks that a worker claims one after the other."""

    @staticmethod
    def played(perform: Perform) -> WorkflowRun:
        run = begin(make_workflow(factories.make_tenant(), ("extract", "load")))
        for _ in range(2):
            factories.dispatch()
            perform(Trigger.objects.get(state="queued"))
        run.refresh_from_db()
        assert run.state == "succeeded"
        return run

    def test_are_one_trace_of_their_own(self, perform: Perform, spans: Spans) -> None:
        self.played(perform)
        of_one = spans()
        firings = [span for span in of_one if span.name == "firing"]
        assert len(trace_ids(of_one)) == 1
        assert [span.parent for span in firings] == [None, None]
        assert len({span_id(span) for span in of_one}) == len(of_one)
        self.played(perform)
        assert len(trace_ids(spans())) == 2

    def test_are_children_of_the_call_that_began_it(self, perform: Perform, spans: Spans) -> None:
        with patch("jobs.store.jobs.callers_trace", return_value=w3c.read(TRACEPARENT)):
            self.played(perform)
        firings = [span for span in spans() if span.name == "firing"]
        assert trace_ids(spans()) == {TRACE_ID}
        assert [parent_id(span) for span in firings] == [CALLERS_SPAN] * 2

    def test_that_is_reaped_is_part_of_the_runs_trace(self, perform: Perform, spans: Spans) -> None:
        begin(make_workflow(factories.make_tenant(), tasks=["extract"]))
        factories.dispatch()
        [claimed] = factories.claim(Trigger.objects.get(state="queued"))
        expected = trace_of(claimed)
        Trigger.objects.update(lease_expires_at=factories.now() - timedelta(minutes=1))
        reap_leases(leadership=ANYONE, limit=10)
        assert expected is not None
        assert trace_ids(spans()) == {expected.trace_id}


class TestLines:
    def test_of_an_ended_attempt_name_the_trace(
        self, perform: Perform, handler: Register, spans: Spans, lines: Lines
    ) -> None:
        perform(queued(handler(lambda ctx, _: None)))
        [line] = [line for line in lines() if line["event"] == "succeed"]
        assert {line["trace_id"]} == trace_ids(spans())
