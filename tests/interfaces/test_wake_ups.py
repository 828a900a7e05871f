"""Actions that wake the beats: work may start after them before a beat would look by itself."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobs.actions import jobs as job_actions
from jobs.actions import triggers as trigger_actions
from jobs.actions.backfill import backfill_job
from jobs.core.errors import Conflict
from jobs.models import Job
from jobs.wakeups.sender import Sender
from tests.factories import HOUR, MINUTE, make_job, make_tenant, make_trigger, now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
TOMORROW = {"type": "interval", "every_seconds": 86_400}
Wakes = Callable[[Callable[[], Any]], bool]


@pytest.fixture
def wakes(django_capture_on_commit_callbacks: Any) -> Wakes:
    """Whether a call leaves a wake-up to be sent at its commit."""

    def watch(action: Callable[[], Any]) -> bool:
        with django_capture_on_commit_callbacks() as callbacks:
            action()
        return any(isinstance(getattr(callback, "__self__", None), Sender) for callback in callbacks)

    return watch


def create(schedule: dict[str, Any]) -> Callable[[], Job]:
    document = {"name": "a", "job_type": "noop", "schedule": schedule}
    tenant = make_tenant()
    return lambda: job_actions.create_job(tenant=tenant, definition=document)


class TestCreating:
    def test_wakes_for_what_is_due_at_once(self, wakes: Wakes) -> None:
        assert wakes(create({"type": "immediate"}))
        assert wakes(create({"type": "once", "run_at": (now() + timedelta(milliseconds=100)).isoformat()}))

    def test_does_not_wake_for_what_is_due_later(self, wakes: Wakes) -> None:
        assert not wakes(create(TOMORROW))
        assert not wakes(create({"type": "once", "run_at": (now() + MINUTE).isoformat()}))


class TestChanging:
    def test_wakes_when_something_may_have_become_due(self, wakes: Wakes) -> None:
        job = make_job()
        of_job = {"tenant": job.tenant, "job_id": job.id}
        assert wakes(lambda: job_actions.update_job(**of_job, changes={"priority": "critical"}))
        assert wakes(lambda: job_actions.run_job_now(**of_job))
        assert wakes(lambda: backfill_job(**of_job, start=now() - HOUR, end=now() - MINUTE))
        job_actions.pause_job(**of_job)
        assert wakes(lambda: job_actions.resume_job(**of_job))

    def test_does_not_wake_when_nothing_can(self, wakes: Wakes) -> None:
        job = create(TOMORROW)()
        of_job = {"tenant": job.tenant, "job_id": job.id}
        assert not wakes(lambda: job_actions.update_job(**of_job, changes={}))
        assert not wakes(lambda: backfill_job(**of_job, start=now() - 48 * HOUR, end=now(), dry_run=True))
        assert not wakes(lambda: job_actions.pause_job(**of_job))
        assert not wakes(lambda: job_actions.cancel_job(**of_job))


class TestReplaying:
    def test_wakes(self, wakes: Wakes) -> None:
        one, two, three = (make_trigger(state="dead") for _ in range(3))
        assert wakes(lambda: trigger_actions.replay_trigger(tenant=one.tenant, trigger_id=one.id))
        assert wakes(lambda: trigger_actions.replay_triggers(tenant=two.tenant, trigger_ids=[two.id]))
        assert wakes(lambda: trigger_actions.replay_dead_letters(tenant=three.tenant))

    def test_does_not_wake_when_refused(self, wakes: Wakes) -> None:
        trigger = make_trigger(state="running")

        def replay() -> None:
            with pytest.raises(Conflict):
                trigger_actions.replay_trigger(tenant=trigger.tenant, trigger_id=trigger.id)

        assert not wakes(replay)
