"""A worker without Celery: what it makes of each way a handler can end, and of a lease that is lost."""

import asyncio
import contextlib
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.db import DatabaseError, DataError, connection, transaction

from jobs.actions.jobs import update_job
from jobs.core.errors import InvalidInput
from jobs.engine.worker import batch
from jobs.engine.worker.process import THIS
from jobs.handlers import Context, Permanent, Response, RetryAfter, outcome
from jobs.models import Job, Trigger
from jobs.store import db, execution, lifecycle
from stage import waiting
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import Beat, Perform, queued
from tests.factories import attempts, row, state_of

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]
Register = Callable[..., str]


def ended(trigger: Trigger) -> tuple[str, str, str]:
    """Trigger's state, its last attempt's state and error code."""
    attempt = attempts(trigger)[-1]
    return state_of(trigger)[0], attempt.state, attempt.error_code


class TestAClaim:
    @pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
    def test_whose_answer_was_lost_is_this_workers_all_the_same(
        self, perform: Perform, handler: Register, monkeypatch: pytest.MonkeyPatch, delivery: str
    ) -> None:
        """A failover or a proxy cuts the connection between the commit and the answer."""
        claim, answers = execution.claim, []

        def cut_off(**arguments: Any) -> Any:
            answers.append(claim(**arguments))
            if len(answers) == 1:
                raise db.DISCONNECTED[0]("deliberate")
            return answers[-1]

        monkeypatch.setattr(execution, "claim", cut_off)
        trigger = queued(handler(lambda ctx, payload: "done"), delivery=delivery)
        assert perform(trigger) == {"succeeded": 1}
        [attempt] = attempts(trigger)
        assert (attempt.state, row(trigger)["crash_count"]) == ("succeeded", 0)


class TestOutcomes:
    @pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
    def test_that_cannot_be_written_cost_no_others(
        self, perform: Perform, handler: Register, monkeypatch: pytest.MonkeyPatch, delivery: str
    ) -> None:
        """Whatever bound is missed on the way: the table refuses the row, and with it the whole statement."""
        monkeypatch.setattr(outcome, "MAX_EXCERPT_BYTES", 100_000)

        async def answer(ctx: Context, payload: dict[str, Any]) -> Response:
            return Response({"n": payload["n"]}, http_status=200, response_excerpt="x" * payload["n"])

        name = handler(answer, batch_size=5)
        good = [queued(name, payload={"n": n}) for n in range(4)]
        bad = queued(name, payload={"n": 20_000}, delivery=delivery)
        end = "dead" if delivery == "at_most_once" else "retrying"
        assert perform(*good[:2], bad, *good[2:]) == {"succeeded": 4, end: 1}
        assert [row(trigger)["result"] for trigger in good] == [{"n": n} for n in range(4)]
        [attempt] = attempts(bad)
        assert ended(bad) == (end, "failed", "unwritable_outcome")
        assert "jobs_attempt_response_excerpt_check" in attempt.error_message

    def test_keep_what_the_handler_returned(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: {"got": payload["n"]}), payload={"n": 3})
        assert perform(trigger) == {"succeeded": 1}
        assert (ended(trigger), row(trigger)["result"]) == (("succeeded", "succeeded", ""), {"got": 3})

    def test_keep_a_remote_answer(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: Response(None, http_status=202, response_excerpt="ok")))
        perform(trigger)
        [attempt] = attempts(trigger)
        assert (attempt.http_status, attempt.response_excerpt, row(trigger)["result"]) == (202, "ok", None)

    def test_retry_what_raised_and_say_why(self, perform: Perform, handler: Register) -> None:
        def boom(ctx: Context, payload: dict[str, Any]) -> None:
            raise ValueError("wires\0crossed")

        trigger = queued(handler(boom), retry_policy={"backoff": "fixed", "initial_delay_seconds": 40})
        assert perform(trigger) == {"retrying": 1}
        [attempt] = attempts(trigger)
        assert ended(trigger) == ("retrying", "failed", "exception")
        assert (attempt.error_class, attempt.error_message) == ("ValueError", "wires\ufffdcrossed")
        assert "boom" in attempt.traceback
        assert 35 < (row(trigger)["due_at"] - factories.now()).total_seconds() <= 48

    def test_bury_what_has_used_up_its_budget(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: 1 / 0), retry_policy={"max_attempts": 1})
        perform(trigger)
        assert state_of(trigger) == ("dead", "exhausted")

    @pytest.mark.parametrize(
        "value",
        [
            object(),
            {1, 2},
            float("nan"),
            {"a": b"x"},
            2**60,
            "\0",
            {"a\0": 1},
            "\ud800",
            "x" * 70_000,
            [[]] * 70_000,
        ],
        ids=lambda value: f"{value!r:.20}",
    )
    def test_fail_a_result_that_cannot_be_stored(
        self, perform: Perform, handler: Register, value: Any
    ) -> None:
        trigger = queued(handler(lambda ctx, payload: value))
        perform(trigger)
        assert ended(trigger) == ("retrying", "failed", "bad_result")
        assert row(trigger)["result"] is None

    @pytest.mark.parametrize("asynchronous", [False, True])
    @pytest.mark.parametrize(
        "state",
        [
            {"a": object()},
            {"a": "\0"},
            {"a\0": 1},
            {"a": float("inf")},
            {"a": "x" * 70_000},
            [1],
            None,
            {7: 1},
        ],
        ids=lambda state: f"{state!r:.20}",
    )
    def test_fail_for_a_checkpoint_that_cannot_be_kept_and_keep_the_one_before(
        self, perform: Perform, handler: Register, state: Any, asynchronous: bool
    ) -> None:
        def report(ctx: Context, payload: dict[str, Any]) -> str:
            ctx.checkpoint({"page": 7})
            if payload:
                ctx.checkpoint(state)
            return "done"

        async def report_async(ctx: Context, payload: dict[str, Any]) -> str:
            return report(ctx, payload)

        name = handler(report_async if asynchronous else report, batch_size=2)
        bad, good = queued(name, payload={"bad": True}), queued(name)
        assert perform(bad, good) == {"retrying": 1, "succeeded": 1}
        assert ended(bad) == ("retrying", "failed", "bad_checkpoint")
        assert "checkpoint" in attempts(bad)[0].error_message
        assert row(bad)["checkpoint"] == row(good)["checkpoint"] == {"page": 7}

    def test_fail_for_progress_that_is_none(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: ctx.progress(2)))
        perform(trigger)
        assert ended(trigger) == ("retrying", "failed", "bad_progress")

    def test_succeed_when_the_handler_caught_the_refusal(self, perform: Perform, handler: Register) -> None:
        def careful(ctx: Context, payload: dict[str, Any]) -> None:
            with contextlib.suppress(InvalidInput):
                ctx.checkpoint({"a": "\0"})

        assert perform(queued(handler(careful))) == {"succeeded": 1}

    def test_bury_what_is_permanent_and_pause_the_job_when_told(
        self, perform: Perform, handler: Register
    ) -> None:
        def gone(ctx: Context, payload: dict[str, Any]) -> None:
            raise Permanent("Gone", http_status=410, pause_job=True)

        trigger = queued(handler(gone))
        perform(trigger)
        assert state_of(trigger) == ("dead", "permanent")
        assert Job.objects.get(id=trigger.job_id).status == "paused"

    def test_do_not_pause_a_job_for_what_an_edit_has_mended(
        self, perform: Perform, handler: Register
    ) -> None:
        def gone(ctx: Context, payload: dict[str, Any]) -> None:
            job = Job.objects.get(id=ctx.job_id)
            update_job(tenant=job.tenant, job_id=job.id, changes={"payload": {"sleep_ms": 1}})
            raise Permanent("Gone", http_status=410, pause_job=True)

        trigger = queued(handler(gone))
        perform(trigger)
        assert state_of(trigger) == ("dead", "permanent")
        assert Job.objects.get(id=trigger.job_id).status == "active"

    def test_honour_retry_after(self, perform: Perform, handler: Register) -> None:
        def busy(ctx: Context, payload: dict[str, Any]) -> None:
            raise RetryAfter(timedelta(hours=3))

        trigger = queued(handler(busy))
        perform(trigger)
        assert row(trigger)["due_at"] - factories.now() > timedelta(hours=2, minutes=59)

    def test_interrupt_a_handler_at_its_timeout(self, perform: Perform, handler: Register) -> None:
        stuck = handler(lambda ctx, payload: threading.Event().wait(30))
        trigger = queued(stuck, timeout=timedelta(milliseconds=100))
        perform(trigger)
        assert ended(trigger) == ("retrying", "timed_out", "timeout")

    @pytest.mark.parametrize("status", [99_999, -1, "teapot", True])
    def test_survive_a_status_that_is_none(self, perform: Perform, handler: Register, status: Any) -> None:
        def odd(ctx: Context, payload: dict[str, Any]) -> None:
            raise Permanent("odd", http_status=status)

        trigger = queued(handler(odd))
        assert perform(trigger) == {"dead": 1}
        assert attempts(trigger)[0].http_status is None

    def test_fall_back_to_the_default_when_the_stored_policy_is_broken(
        self, perform: Perform, handler: Register
    ) -> None:
        trigger = queued(handler(lambda ctx, payload: 1 / 0), retry_policy={"max_attempts": "many"})
        assert perform(trigger) == {"retrying": 1}

    def test_pause_nothing_for_an_outcome_that_came_too_late(
        self, perform: Perform, handler: Register
    ) -> None:
        def gone(ctx: Context, payload: dict[str, Any]) -> None:
            Trigger.objects.filter(id=ctx.trigger_id).update(fence=9)
            raise Permanent("Gone", pause_job=True)

        trigger = queued(handler(gone))
        assert perform(trigger) == {"stale": 1}
        assert Job.objects.get(id=trigger.job_id).status == "active"

    def test_of_one_trigger_leave_its_batch_unharmed(self, perform: Perform, handler: Register) -> None:
        def picky(ctx: Context, payload: dict[str, Any]) -> None:
            if payload.get("bad"):
                raise SystemExit(3)

        name = handler(picky, batch_size=3)
        good, bad, late = queued(name), queued(name, payload={"bad": True}), queued(name)
        assert perform(good, bad, late) == {"succeeded": 2, "retrying": 1}
        assert ended(bad)[2] == "system_exit"


class TestAtMostOnce:
    def test_is_not_tried_again_when_it_failed(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: 1 / 0), delivery="at_most_once")
        assert perform(trigger) == {"dead": 1}
        assert state_of(trigger) == ("dead", "exhausted")

    def test_is_lost_with_its_lease_and_no_beat_starts_it_again(
        self, perform: Perform, handler: Register, beat: Beat, clock: Any
    ) -> None:
        starts = []

        def freezes(ctx: Context, payload: dict[str, Any]) -> str:
            starts.append(ctx.fence)
            clock(2 * factories.MINUTE)
            beat.step()
            return "late"

        trigger = queued(handler(freezes), delivery="at_most_once")
        assert perform(trigger) == {"stale": 1}
        assert state_of(trigger) == ("dead", "lost")
        clock(4 * factories.MINUTE)
        beat.step()
        assert (starts, beat.broker.tokens, attempts(trigger)[0].state) == ([1], [], "stale")


class TestMessages:
    def test_leave_nothing_to_the_garbage_collector(self, perform: Perform, handler: Register) -> None:
        """A batch is thousands of objects; looking through them was a tenth of a worker's Python."""
        job_type = handler(lambda ctx, payload: None)
        messages = [(queued(job_type), queued(job_type)) for _ in range(6)]
        gc.collect()
        gc.disable()
        try:
            # isinstance() would ask a lazy object of an earlier test for its class, and thereby evaluate it.
            before = {id(found) for found in gc.get_objects() if type(found) is batch.Batch}
            for message in messages:
                assert perform(*message) == {"succeeded": 2}
            alive = {id(found) for found in gc.get_objects() if type(found) is batch.Batch}
        finally:
            gc.enable()
        # The renewer may have one in sight.
        assert len(alive - before) <= 2

    def test_whose_triggers_are_all_stale_do_nothing(self, perform: Perform, handler: Register) -> None:
        called = []
        trigger = queued(handler(lambda ctx, payload: called.append(1)))
        assert perform(trigger) == {"succeeded": 1}
        assert perform(trigger) is None
        assert (called, len(attempts(trigger))) == ([1], 1)

    def test_drop_what_is_unknown_or_under_another_fence_and_count_it(
        self, perform: Perform, handler: Register, caplog: pytest.LogCaptureFixture
    ) -> None:
        name = handler(lambda ctx, payload: None)
        good, foreign, moved_on = queued(name), queued(name, fence=4), queued(name)
        unknown = Trigger(id=factories.new_id(), fence=1, job_type=name)
        foreign.fence = 3
        Trigger.objects.filter(id=moved_on.id).update(state="retrying")
        before = [row(foreign), row(factories.make_trigger(state="running"))]
        with caplog.at_level("WARNING", "carillon"):
            assert perform(unknown, good, foreign, moved_on) == {"succeeded": 1, "dropped": 3}
            assert perform(unknown) is None
        dropped = [record.msg for record in caplog.records if record.msg["event"] == "message dropped"]
        assert [(event["triggers"], event["of"]) for event in dropped] == [(3, 4), (1, 1)]
        assert [row(before[0]["id"]), row(before[1]["id"])] == before
        assert state_of(moved_on) == ("retrying", "")

    def test_that_name_a_trigger_twice_start_it_once(self, perform: Perform, handler: Register) -> None:
        trigger = queued(handler(lambda ctx, payload: None))
        assert perform(trigger, trigger) == {"succeeded": 1}
        assert len(attempts(trigger)) == 1

    def test_run_only_what_may_run(self, perform: Perform, handler: Register) -> None:
        name = handler(lambda ctx, payload: None)
        good, paused = queued(name), queued(name)
        Job.objects.filter(id=paused.job_id).update(status="paused")
        assert perform(good, paused) == {"succeeded": 1}
        assert state_of(paused) == ("pending", "")


class TestContextOfAHandler:
    def test_names_the_attempt_it_serves(self, perform: Perform, handler: Register) -> None:
        seen: list[Context] = []
        trigger = queued(handler(lambda ctx, payload: seen.append(ctx)), fence=3, attempt_count=1)
        perform(trigger)
        [ctx] = seen
        [attempt] = attempts(trigger)
        assert (ctx.trigger_id, ctx.attempt_id, ctx.fence) == (trigger.id, attempt.id, 3)
        assert (ctx.attempt_number, ctx.idempotency_key) == (2, trigger.idempotency_key)
        assert (ctx.scheduled_for, ctx.tenant) == (trigger.scheduled_for, trigger.tenant.slug)

    def test_keeps_progress_and_checkpoint_for_the_next_attempt(
        self, perform: Perform, handler: Register
    ) -> None:
        resumed = []

        def work(ctx: Context, payload: dict[str, Any]) -> None:
            resumed.append(ctx.resume_from)
            ctx.progress(0.5, "half")
            ctx.checkpoint({"page": 7})
            raise RuntimeError

        trigger = queued(handler(work))
        perform(trigger)
        assert row(trigger)["progress"] == {"fraction": 0.5, "stage": "half"}
        Trigger.objects.filter(id=trigger.id).update(state="queued", fence=2)
        trigger.refresh_from_db()
        perform(trigger)
        assert resumed == [None, {"page": 7}]

    def test_lets_an_asynchronous_handler_report_too(self, perform: Perform, handler: Register) -> None:
        async def work(ctx: Context, payload: dict[str, Any]) -> None:
            ctx.progress(0.5, "half")
            ctx.checkpoint({"page": 7})

        trigger = queued(handler(work))
        assert perform(trigger) == {"succeeded": 1}
        stored = row(trigger)
        assert (stored["progress"], stored["checkpoint"]) == ({"fraction": 0.5, "stage": "half"}, {"page": 7})


class TestAsynchronousBatch:
    def test_runs_all_at_once_and_finishes_each(self, perform: Perform, handler: Register) -> None:
        meeting: list[asyncio.Barrier] = []

        async def meet(ctx: Context, payload: dict[str, Any]) -> None:
            if not meeting:
                meeting.append(asyncio.Barrier(5))
            await meeting[0].wait()
            if payload.get("bad"):
                raise Permanent("no")

        name = handler(meet, batch_size=5)
        triggers = [queued(name, payload={"bad": n == 2}) for n in range(5)]
        assert perform(*triggers) == {"succeeded": 4, "dead": 1}
        assert [state_of(t)[0] for t in triggers].index("dead") == 2

    def test_writes_early_outcomes_while_a_late_one_runs(self, perform: Perform, handler: Register) -> None:
        triggers: list[Trigger] = []

        async def wait_for_the_first(ctx: Context, payload: dict[str, Any]) -> None:
            if payload["last"]:
                early = triggers[0].id
                await asyncio.to_thread(wait_until, lambda: written(early))

        name = handler(wait_for_the_first, batch_size=2)
        triggers += [queued(name, payload={"last": last}) for last in (False, True)]
        assert perform(*triggers) == {"succeeded": 2}


def written(trigger_id: Any) -> bool:
    """Asked on a thread of its own: the connection is closed again."""
    try:
        return state_of(trigger_id)[0] == "succeeded"
    finally:
        connection.close()


def begin() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")


def switch_autocommit_off() -> None:
    transaction.set_autocommit(False)


def enter_a_block() -> None:
    transaction.atomic().__enter__()


def break_a_transaction() -> None:
    begin()
    with connection.cursor() as cursor, contextlib.suppress(DataError):
        cursor.execute("SELECT 1 / 0")


class TestATransactionLeftOpen:
    LEAVING = [begin, switch_autocommit_off, enter_a_block, break_a_transaction]

    @pytest.mark.parametrize("leave_open", LEAVING)
    def test_is_rolled_back_and_fails_the_attempt_alone(
        self, perform: Perform, handler: Register, leave_open: Callable[[], None]
    ) -> None:
        def careless(ctx: Context, payload: dict[str, Any]) -> str:
            if ctx.trigger_id == bad.id:
                Job.objects.filter(id=bad.job_id).update(name="kept: committed before")
                leave_open()
                with contextlib.suppress(DatabaseError):
                    Job.objects.filter(id=bad.job_id).update(name="lost: never committed")
            return "done"

        name = handler(careless, batch_size=3)
        triggers = [queued(name) for _ in range(3)]
        bad = triggers[1]
        assert perform(*triggers) == {"succeeded": 2, "retrying": 1}
        # Seen from elsewhere: what is on record is committed, and nobody holds a lock.
        other = connection.copy()
        try:
            with other.cursor() as cursor:
                cursor.execute(
                    "SELECT state FROM jobs_trigger WHERE id = ANY(%s) FOR UPDATE NOWAIT",
                    [[trigger.id for trigger in triggers]],
                )
                assert sorted(state for (state,) in cursor.fetchall()) == [
                    "retrying",
                    "succeeded",
                    "succeeded",
                ]
                cursor.execute("SELECT name FROM jobs_job WHERE id = %s", [bad.job_id])
                assert cursor.fetchone() == ("kept: committed before",)
        finally:
            other.close()
        assert ended(bad) == ("retrying", "failed", "open_transaction")
        assert "transaction.atomic()" in attempts(bad)[0].error_message

    def test_leaves_what_failed_anyway_its_own_reason(self, perform: Perform, handler: Register) -> None:
        def careless(ctx: Context, payload: dict[str, Any]) -> None:
            begin()
            raise Permanent("No such account.", code="no_account")

        trigger = queued(handler(careless))
        assert perform(trigger) == {"dead": 1}
        assert ended(trigger) == ("dead", "failed", "no_account")
        assert "left a transaction open" in attempts(trigger)[0].error_message
        assert "No such account." in attempts(trigger)[0].error_message


class TestLeaseRenewer:
    @pytest.fixture(autouse=True)
    def _short_lease(self, perform: Perform, settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"worker_lease_seconds": 0.3})

    def test_renews_while_a_handler_runs_longer_than_its_lease(
        self, perform: Perform, handler: Register
    ) -> None:
        def outlast(ctx: Context, payload: dict[str, Any]) -> None:
            first = row(ctx.trigger_id)["lease_expires_at"]
            wait_until(lambda: row(ctx.trigger_id)["lease_expires_at"] > first + timedelta(seconds=0.3))

        trigger = queued(handler(outlast))
        assert perform(trigger) == {"succeeded": 1}

    def test_carries_a_cancel_to_the_handler(self, perform: Perform, handler: Register) -> None:
        def stoppable(ctx: Context, payload: dict[str, Any]) -> None:
            lifecycle.cancel(trigger_id=ctx.trigger_id, tenant_id=trigger.tenant_id)
            wait_until(ctx.cancelled)
            ctx.raise_if_cancelled()

        trigger = queued(handler(stoppable))
        assert perform(trigger) == {"cancelled": 1}
        assert (state_of(trigger), attempts(trigger)[0].state) == (("cancelled", "requested"), "cancelled")

    def test_interrupts_a_handler_that_does_not_heed_a_cancel_and_spares_its_batch(
        self, perform: Perform, handler: Register, settings: Any
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"stop_grace_seconds": 0.1})

        def heedless(ctx: Context, payload: dict[str, Any]) -> None:
            if ctx.trigger_id == bad.id:
                lifecycle.cancel(trigger_id=ctx.trigger_id, tenant_id=bad.tenant_id)
                threading.Event().wait()

        name = handler(heedless, batch_size=3)
        triggers = [queued(name) for _ in range(3)]
        bad = triggers[1]
        assert perform(*triggers) == {"succeeded": 2, "cancelled": 1}
        assert (state_of(bad), attempts(bad)[0].state) == (("cancelled", "requested"), "cancelled")
        assert "did not heed" in attempts(bad)[0].error_message
        assert charged(triggers[0]) == charged(triggers[2]) == (0, 0, False)

    def test_interrupts_a_handler_whose_lease_was_lost(
        self, perform: Perform, handler: Register, settings: Any
    ) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"stop_grace_seconds": 0.1})

        def heedless(ctx: Context, payload: dict[str, Any]) -> None:
            Trigger.objects.filter(id=ctx.trigger_id).update(state="retrying", fence=2)
            threading.Event().wait()

        trigger = queued(handler(heedless))
        assert perform(trigger) == {"stale": 1}
        assert state_of(trigger) == ("retrying", "")

    def test_keeps_the_late_outcome_of_a_lost_lease_as_stale(
        self, perform: Perform, handler: Register
    ) -> None:
        def outlived(ctx: Context, payload: dict[str, Any]) -> str:
            Trigger.objects.filter(id=ctx.trigger_id).update(state="retrying", fence=2)
            wait_until(ctx.cancelled)
            return "late"

        trigger = queued(handler(outlived))
        assert perform(trigger) == {"stale": 1}
        assert (state_of(trigger), row(trigger)["result"]) == (("retrying", ""), None)
        assert attempts(trigger)[0].state == "stale"

    def test_does_not_start_what_it_lost_while_waiting_its_turn(
        self, perform: Perform, handler: Register
    ) -> None:
        called = []

        def first_loses_second(ctx: Context, payload: dict[str, Any]) -> None:
            called.append(ctx.trigger_id)
            Trigger.objects.filter(id=second.id).update(state="retrying", fence=2)
            held = THIS.renewer._batches[0].hold.held[second.id]
            wait_until(lambda: held.lost)

        name = handler(first_loses_second, batch_size=2)
        first, second = queued(name), queued(name)
        assert perform(first, second) == {"succeeded": 1, "stale": 1}
        assert called == [first.id]

    def test_outlives_a_write_that_fails(
        self, perform: Perform, handler: Register, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = execution.renew
        refused: list[int] = []

        def refuse_once(**arguments: Any) -> Any:
            if not refused:
                refused.append(1)
                raise ValueError("refused")
            return real(**arguments)

        monkeypatch.setattr(execution, "renew", refuse_once)

        def outlast(ctx: Context, payload: dict[str, Any]) -> None:
            first = row(ctx.trigger_id)["lease_expires_at"]
            wait_until(lambda: row(ctx.trigger_id)["lease_expires_at"] > first)

        assert perform(queued(handler(outlast))) == {"succeeded": 1}
        assert refused == [1]


STUCK = """
import json, signal, sys, time
import django; django.setup()
from uuid import UUID
from jobs.engine import worker
from jobs.engine.worker.leases import renewer
from jobs.handlers import job_type
from jobs.models import Trigger
from jobs.store.execution import ClaimToken

renewer.NOTICE_SECONDS = 0.2
worker.be_expendable()

@job_type("test.stuck", batch_size=3)
def stuck(ctx, payload):
    if payload.get("cancelled"):
        Trigger.objects.filter(id=ctx.trigger_id).update(cancel_requested=True, cancel_reason="superseded")
    if payload["stuck"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        time.sleep(60)

@job_type("test.blocks", batch_size=3)
async def blocks(ctx, payload):
    if payload["stuck"]:
        while True:
            pass
    import asyncio
    await asyncio.Event().wait()

tokens = [ClaimToken(UUID(trigger_id), fence) for trigger_id, fence in json.loads(sys.argv[2])]
worker.perform(job_type=sys.argv[1], tokens=tokens, worker="w1", celery_task_id="c")
worker.wait_for_the_rest()
"""


def perform_until_given_up(*triggers: Trigger) -> None:
    """In a process of its own, which has to end itself."""
    of = connection.settings_dict
    user, host = quote(of["USER"] or ""), quote(of["HOST"] or "", safe="")
    password = f":{quote(of['PASSWORD'])}" if of["PASSWORD"] else ""
    url = f"postgresql://{user}{password}@/{of['NAME']}?host={host}" + (
        f"&port={of['PORT']}" if of["PORT"] else ""
    )
    messages = json.dumps([[str(trigger.id), trigger.fence] for trigger in triggers])
    ended_process = subprocess.run(
        [sys.executable, "-c", STUCK, triggers[0].job_type, messages],
        cwd=ROOT,
        env=os.environ
        | {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
            "CARILLON_STOP_GRACE_SECONDS": "0.1",
            "CARILLON_WORKER_LEASE_SECONDS": "3",
        },
        capture_output=True,
        timeout=30 * waiting.patience,
        check=False,
    )
    assert ended_process.returncode == 70, ended_process.stderr.decode()[-2000:]


def charged(trigger: Trigger) -> tuple[int, int, bool]:
    """Its crashes, the attempts that its budget does not count, and whether it travels alone from now on."""
    stored = row(trigger)
    return stored["crash_count"], stored["budget_start"], stored["suspect"]


@pytest.mark.slow
class TestStuckHandler:
    def test_costs_its_process_but_not_its_batch(self) -> None:
        triggers = [
            queued("test.stuck", payload={"stuck": stuck}, timeout=timedelta(milliseconds=200))
            for stuck in (False, True, False)
        ]
        perform_until_given_up(*triggers)
        assert ended(triggers[1]) == ("retrying", "timed_out", "timeout")
        assert charged(triggers[1]) == (1, 0, True)
        # In the batch's order: a claim may return its rows in any.
        for other in (triggers[0], triggers[2]):
            untried = ended(other) == ("retrying", "lost", "batch_abandoned")
            assert untried or ended(other) == ("succeeded", "succeeded", "")
            assert charged(other) == (0, int(untried), False)
        assert row(triggers[1])["lease_expires_at"] is None

    def test_that_does_not_heed_a_cancel_ends_cancelled_and_costs_its_batch_nothing(self) -> None:
        triggers = [
            queued("test.stuck", payload={"stuck": cancelled, "cancelled": cancelled})
            for cancelled in (False, True, False)
        ]
        perform_until_given_up(*triggers)
        assert ended(triggers[1]) == ("cancelled", "cancelled", "cancelled")
        assert state_of(triggers[1]) == ("cancelled", "superseded")
        for other in (triggers[0], triggers[2]):
            untried = ended(other) == ("retrying", "lost", "batch_abandoned")
            assert untried or ended(other) == ("succeeded", "succeeded", "")
            assert charged(other) == (0, int(untried), False)

    def test_that_gave_up_its_third_process_is_poison(self) -> None:
        trigger = queued(
            "test.stuck", payload={"stuck": True}, timeout=timedelta(milliseconds=200), crash_count=2
        )
        perform_until_given_up(trigger)
        assert state_of(trigger) == ("dead", "poison")

    def test_that_blocks_the_event_loop_is_one_of_several_that_may_have(self) -> None:
        triggers = [
            queued("test.blocks", payload={"stuck": stuck}, timeout=timedelta(seconds=1))
            for stuck in (False, True, False)
        ]
        perform_until_given_up(*triggers)
        assert {ended(trigger) for trigger in triggers} == {("retrying", "lost", "batch_abandoned")}
        assert {charged(trigger) for trigger in triggers} == {(0, 1, True)}

    def test_that_blocks_the_event_loop_alone_is_charged(self) -> None:
        trigger = queued("test.blocks", payload={"stuck": True}, timeout=timedelta(milliseconds=200))
        perform_until_given_up(trigger)
        assert ended(trigger) == ("retrying", "timed_out", "timeout")
        assert charged(trigger) == (1, 0, True)
