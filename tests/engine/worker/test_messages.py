"""A worker without Celery: which triggers of a message it starts, and how triggers of one message run side by side."""

import asyncio
import gc
from typing import Any

import pytest
from django.db import connection

from jobs.engine.worker import batch
from jobs.handlers import Context, Permanent
from jobs.models import Job, Trigger
from jobs.store import db, execution
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import Perform, queued
from tests.engine.worker.conftest import Register
from tests.factories import attempts, row, state_of

pytestmark = pytest.mark.django_db(transaction=True)


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


class TestMessages:
    def test_leave_nothing_to_the_garbage_collector(self, perform: Perform, handler: Register) -> None:
        """A batch is thousands of objects. Collecting them took a tenth of a worker's Python."""
        job_type = handler(lambda ctx, payload: None)
        messages = [(queued(job_type), queued(job_type)) for _ in range(6)]
        gc.collect()
        gc.disable()
        try:
            # isinstance() would ask a lazy object of an earlier test for its class, and so evaluate it.
            before = {id(found) for found in gc.get_objects() if type(found) is batch.Batch}
            for message in messages:
                assert perform(*message) == {"succeeded": 2}
            alive = {id(found) for found in gc.get_objects() if type(found) is batch.Batch}
        finally:
            gc.enable()
        # The renewer may still refer to one.
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
    """Called on a thread of its own, so it closes its connection again."""
    try:
        return state_of(trigger_id)[0] == "succeeded"
    finally:
        connection.close()
