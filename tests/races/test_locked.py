"""A session holds a lock and does not release it: each step of a beat returns soon, and does all other work."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg.errors import LockNotAvailable

from jobs.conf import engine_settings
from jobs.engine.cycle import Cycle
from jobs.engine.dispatcher import QueueConfig
from jobs.models import Attempt, Job, Trigger
from jobs.store import db
from jobs.store.db import Query
from tenants.models import Tenant
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND, make_attempt, make_job, make_tenant, make_trigger, state_of
from tests.races.conftest import Rival

pytestmark = pytest.mark.django_db(transaction=True)
#: Statements of a step that may wait for a lock in vain, each for ``LOCK_PATIENCE``. A held lock delays a step by no
#: more, on a machine however busy.
MAX_WAITS = 2
Hold = Callable[[str], None]


@pytest.fixture
def hold(rival: Rival) -> Iterator[Hold]:
    """``hold("SELECT … FOR UPDATE")``: another session runs this in a transaction that it leaves open."""

    def held(sql: str) -> None:
        rival.do(lambda: connection.set_autocommit(False))
        rival.do(Query("hold", sql))

    yield held
    rival.do(lambda: connection.close())


def lock_of(row: Any) -> str:
    return (
        f"SELECT true AS locked FROM {row._meta.db_table} WHERE {row._meta.pk.column} = '{row.pk}' FOR UPDATE"
    )


class Waits:
    """Counts statements of this thread that gave up a lock. Each may have waited ``LOCK_PATIENCE`` at most."""

    def __init__(self) -> None:
        self.given_up = 0
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> "Waits":
        execute, thread = psycopg.Cursor.execute, threading.get_ident()

        def counted(cursor: Any, *asked: Any, **how: Any) -> Any:
            try:
                return execute(cursor, *asked, **how)
            except LockNotAvailable:
                self.given_up += threading.get_ident() == thread
                raise

        self._patch.setattr(psycopg.Cursor, "execute", counted)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
        with connection.cursor() as cursor:
            cursor.execute("SELECT setting::int FROM pg_settings WHERE name = 'lock_timeout'")
            [patience] = cursor.fetchone()
        assert patience == db.LOCK_PATIENCE / timedelta(milliseconds=1)


class Beat:
    """A beat whose steps are taken one by one, with the same bounds as in its threads."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.cycle = Cycle(
            settings=engine_settings().model_copy(update={"leader_election": False}),
            configs=lambda: {name: QueueConfig(None, 100) for name in ("noop", "webhook")},
            publish=self._publish,
        )

    def _publish(self, messages: Any) -> None:
        self.sent += [token.id for message in messages for token in message.tokens]

    def take(self, name: str) -> None:
        """Take a step; it must succeed, and soon."""
        step = self.cycle.steps[name]
        step.hurry()
        db.bound(statements=step.budget)
        with Waits() as waits:
            assert step.turn(self.cycle.leader.leadership), f"{name} failed"
        assert waits.given_up <= MAX_WAITS


@pytest.fixture
def beat(job_types: None) -> Iterator[Beat]:
    found = Beat()
    found.take("queues")
    yield found
    connection.close()


class TestStep:
    def test_reaps_others_while_a_running_trigger_is_locked(self, beat: Beat, hold: Hold) -> None:
        locked, *others = _expired(3)
        hold(lock_of(locked))
        beat.take("reap leases")
        assert [state_of(trigger)[0] for trigger in (locked, *others)] == ["running", "retrying", "retrying"]

    def test_reaps_others_while_an_attempt_is_locked(self, beat: Beat, hold: Hold) -> None:
        locked, *others = _expired(3)
        hold(lock_of(Attempt.objects.get(trigger=locked)))
        beat.take("reap leases")
        assert [state_of(trigger)[0] for trigger in (locked, *others)] == ["running", "retrying", "retrying"]
        assert Attempt.objects.get(trigger=locked).state == "started"

    def test_takes_other_messages_back_while_a_queued_trigger_is_locked(self, beat: Beat, hold: Hold) -> None:
        locked, other = (make_trigger(state="queued", queued_at=factories.now() - HOUR) for _ in range(2))
        hold(lock_of(locked))
        beat.take("reap messages")
        assert [state_of(locked)[0], state_of(other)[0]] == ["queued", "pending"]

    @pytest.mark.parametrize("until", [None, -SECOND], ids=["release", "unpark"])
    def test_shows_others_while_a_parked_trigger_is_locked(
        self, beat: Beat, hold: Hold, until: timedelta | None
    ) -> None:
        at = until and factories.now() + until
        locked, other = (
            make_trigger(make_job(overlap_policy="queue"), held=True, parked=True, parked_until=at)
            for _ in range(2)
        )
        hold(lock_of(locked))
        beat.take("unpark" if until else "release")
        assert [Trigger.objects.get(id=one.id).held for one in (locked, other)] == [True, False]

    def test_dispatches_others_while_a_pending_trigger_is_locked(self, beat: Beat, hold: Hold) -> None:
        job = make_job()
        locked, same_job, other = make_trigger(job), make_trigger(job), make_trigger(make_job())
        hold(lock_of(locked))
        beat.take("dispatch")
        assert set(beat.sent) == {same_job.id, other.id}

    def test_dispatches_others_while_a_tenant_is_locked(self, beat: Beat, hold: Hold) -> None:
        locked, other = make_trigger(), make_trigger()
        hold(lock_of(Tenant.objects.get(id=locked.tenant_id)))
        beat.take("dispatch")
        assert beat.sent == [other.id]

    def test_dispatches_other_types_while_a_queue_is_locked(self, beat: Beat, hold: Hold) -> None:
        make_trigger()
        other = make_trigger(make_job(job_type="webhook"))
        hold("SELECT true AS locked FROM jobs_queue WHERE job_type = 'noop' FOR UPDATE")
        beat.take("dispatch")
        assert beat.sent == [other.id]

    @pytest.mark.parametrize("policy", ["replace", "collapse"])
    def test_dispatches_others_while_what_must_give_way_is_locked(
        self, beat: Beat, hold: Hold, policy: str
    ) -> None:
        job = make_job(overlap_policy=policy)
        running = make_trigger(job, "running", lease_expires_at=factories.now() + HOUR)
        waiting = make_trigger(job, held=True, parked=True)
        newest, other = make_trigger(job), make_trigger()
        hold(lock_of(running if policy == "replace" else waiting))
        beat.take("dispatch")
        assert beat.sent == [other.id]
        newest.refresh_from_db()
        assert newest.held == (policy == "collapse"), "what could not stop the others tries again"

    def test_materializes_others_while_a_job_is_locked(self, beat: Beat, hold: Hold) -> None:
        locked, other = (make_job(next_fire_at=factories.now()) for _ in range(2))
        hold(lock_of(locked))
        beat.take("materialize")
        assert {trigger.job_id for trigger in Trigger.objects.all()} == {other.id}

    def test_goes_on_after_an_outage_while_what_was_missed_is_locked(self, beat: Beat, hold: Hold) -> None:
        since = factories.now().replace(microsecond=0) - HOUR
        columns = {
            "interval": MINUTE,
            "created_at": since,
            "next_fire_at": since + 30 * MINUTE,
            "misfire_policy": "skip",
        }
        job, other = make_job(**columns), make_job(**columns)
        Job.objects.update(updated_at=since)
        locked = make_trigger(job, scheduled_for=since + 29 * MINUTE, due_at=since + 29 * MINUTE)
        hold(lock_of(locked))
        beat.take("materialize")
        beat.take("catch-up")
        assert Trigger.objects.filter(job=other, state="pending").exists()
        assert Trigger.objects.filter(id=locked.id).exists()

    def test_completes_others_while_a_job_is_locked(self, beat: Beat, hold: Hold) -> None:
        locked, other = make_job(), make_job()
        hold(lock_of(locked))
        beat.take("complete")
        assert [Job.objects.get(id=job.id).status for job in (locked, other)] == ["active", "completed"]

    def test_retires_the_secrets_of_others_while_a_tenant_is_locked(self, beat: Beat, hold: Hold) -> None:
        ended = {"webhook_secret": "new old", "webhook_secret_retires_at": factories.now() - SECOND}
        locked, other = make_tenant(**ended), make_tenant(**ended)
        hold(lock_of(locked))
        beat.take("signing secrets")
        found = [Tenant.objects.get(id=tenant.id).webhook_secret for tenant in (locked, other)]
        assert found == ["new old", "new"]

    @pytest.mark.parametrize("table", ["jobs_clock", "jobs_lease", "jobs_feedreader", "jobs_operation"])
    def test_waits_for_nothing_while_a_whole_table_of_rows_is_locked(
        self, beat: Beat, hold: Hold, table: str
    ) -> None:
        for step in beat.cycle.steps:
            beat.take(step)
        hold(f"SELECT true AS locked FROM {table} FOR UPDATE")
        for step in beat.cycle.steps:
            beat.take(step)


class TestPartition:
    def test_that_is_locked_keeps_nothing_from_dispatch(self, beat: Beat, hold: Hold) -> None:
        attempt = make_attempt(make_trigger(state="succeeded"))
        with connection.cursor() as cursor:
            cursor.execute("SELECT tableoid::regclass FROM jobs_attempt WHERE id = %s", [attempt.id])
            [partition] = cursor.fetchone()
        lost = make_trigger(state="queued", queued_at=factories.now() - HOUR)
        hold(f"LOCK TABLE {partition} IN ACCESS EXCLUSIVE MODE")
        beat.take("reap messages")
        job = make_job(next_fire_at=factories.now(), interval=HOUR)
        for name in ("materialize", "release", "unpark", "dispatch"):
            beat.take(name)
        assert set(beat.sent) == {lost.id, Trigger.objects.get(job=job).id}

    def test_that_is_locked_fails_the_reaping_alone_and_soon(self, beat: Beat, hold: Hold) -> None:
        [trigger] = _expired(1)
        hold("LOCK TABLE jobs_attempt IN ACCESS EXCLUSIVE MODE")
        step = beat.cycle.steps["reap leases"]
        step.hurry()
        db.bound(statements=step.budget)
        with Waits() as waits:
            assert not step.turn(beat.cycle.leader.leadership)
        assert (1 <= waits.given_up <= MAX_WAITS, step.failing_seconds > 0) == (True, True)
        assert state_of(trigger)[0] == "running"


class TestStatements:
    def test_of_a_beat_are_none_that_may_wait(self, beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
        """The test covers a little of everything that a beat meets."""
        made: set[str] = set()
        call = Query.__call__

        def noted(query: Query, **parameters: Any) -> Any:
            made.add(query.name if "waits (" in " ".join(query.headers.get("locks", [])) else "")
            return call(query, **parameters)

        monkeypatch.setattr(Query, "__call__", noted)
        _expired(2)
        since = factories.now() - HOUR
        make_job(interval=MINUTE, created_at=since, next_fire_at=since + MINUTE, misfire_policy="fire_all")
        for policy in ("skip", "queue", "collapse", "replace"):
            job = make_job(overlap_policy=policy)
            for _ in range(3):
                make_trigger(job)
        make_trigger(make_job(misfire_policy="fire_once"), due_at=since)
        make_trigger(make_job(status="paused"))
        make_trigger(make_job(make_tenant(status="frozen")))
        for _ in range(3):
            for name in beat.cycle.steps:
                beat.take(name)
        assert made == {""}


def _expired(number: int) -> list[Trigger]:
    """Running triggers whose leases ran out, each with its attempt."""
    found = []
    for _ in range(number):
        trigger = make_trigger(
            state="running", fence=1, attempt_count=1, lease_expires_at=factories.now() - SECOND
        )
        make_attempt(trigger, number=1, fence=1)
        found.append(trigger)
    return found
