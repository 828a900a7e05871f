"""History that is read from a real replica, and history that is still read on the primary."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import InternalError, connection, connections

from jobs.models import Trigger
from jobs.store import db
from jobs.store import replica as history
from jobs.store.db.routing import PRIMARY, REPLICA, on_replica, server_of_history
from jobs.store.replica.watch import WATCH
from scheduler_project.sessions import SharedSessions, go_through_pooler
from tenants.models import ApiKey
from tests import factories
from tests.interfaces.api.caller import Caller, noop_job
from tests.interfaces.pooler import Pooler
from tests.interfaces.test_sessions import LEFT
from tests.replica.server import Replica
from tests.workflows.playing import begin, make_workflow

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
AS_OF = "Carillon-As-Of"
LISTS = (
    "/triggers",
    "/triggers?state=dead&ordering=created",
    "/attempts",
    "/jobs/{job}/triggers",
    "/jobs/{job}/attempts",
    "/jobs/{job}/executions",
    "/triggers/{trigger}/attempts",
    "/workflow-runs",
    "/audit",
)


@pytest.fixture
def caller(transactional_db: None, job_types: None) -> Caller:
    return Caller(factories.make_tenant(), scopes=("read", "write", "admin"))


@pytest.fixture
def trigger(caller: Caller) -> Trigger:
    """A trigger, with one row of everything that lists show."""
    found = factories.make_trigger(factories.make_job(caller.tenant), "dead")
    factories.make_attempt(found, "failed", error_code="http_500")
    begin(make_workflow(caller.tenant, ("a", "b")))
    return found


def rows(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def one_more_of_each(trigger: Trigger) -> None:
    more = factories.make_trigger(trigger.job, "dead")
    factories.make_attempt(more, "failed", error_code="http_500")
    factories.make_attempt(trigger, "failed", number=2, error_code="http_500")
    begin(make_workflow(trigger.tenant, ("a", "b")))
    trigger.job.__class__.objects.filter(id=trigger.job_id).update(name="renamed")


class TestListsOfHistory:
    @pytest.mark.parametrize("path", LISTS)
    def test_are_read_from_the_replica_and_say_as_of_when(
        self, caller: Caller, trigger: Trigger, stopped: Replica, path: str
    ) -> None:
        path = path.format(job=trigger.job_id, trigger=trigger.id)
        before = caller.get(path)
        assert rows(before)
        one_more_of_each(trigger)
        after = caller.get(path)
        assert rows(after) == rows(before)
        assert after.headers[AS_OF].endswith("Z")
        assert AS_OF in before.headers

    @pytest.mark.parametrize("path", LISTS)
    def test_are_read_on_the_primary_by_whoever_asks_for_it(
        self, caller: Caller, trigger: Trigger, stopped: Replica, path: str
    ) -> None:
        path = path.format(job=trigger.job_id, trigger=trigger.id)
        before = caller.get(path)
        one_more_of_each(trigger)
        after = caller.get(path, **{"Cache-Control": "max-age=0, No-Cache"})
        assert len(rows(after)) > len(rows(before))
        assert AS_OF not in after.headers

    def test_of_a_job_that_the_replica_has_not_got_are_empty(self, caller: Caller, stopped: Replica) -> None:
        made = caller.post("/jobs", noop_job()).json()
        assert rows(caller.get(f"/jobs/{made['id']}/attempts")) == []

    def test_name_the_primary_where_no_replica_is_set(self, caller: Caller, trigger: Trigger) -> None:
        assert AS_OF not in caller.get("/triggers").headers

    def test_are_refused_as_ever(self, caller: Caller, stopped: Replica) -> None:
        assert caller.get("/triggers?state=none").status_code == 400
        assert caller.get("/triggers?cursor=none").status_code == 400
        assert caller.get("/audit?object_id=").status_code == 400


class TestAllElse:
    def test_sees_what_was_just_written(self, caller: Caller, trigger: Trigger, stopped: Replica) -> None:
        made = caller.post("/jobs", noop_job(), **{"Idempotency-Key": "once"}).json()
        path = f"/jobs/{made['id']}"
        again = caller.post("/jobs", noop_job(), **{"Idempotency-Key": "once"})
        assert again.json()["id"] == made["id"]
        assert caller.get(path).json()["name"] == made["name"]
        assert rows(caller.get("/jobs"))[0]["id"] == made["id"]
        assert caller.patch(path, {"priority": "high"}, **{"If-Match": '"1"'}).json()["version"] == 2
        assert caller.patch(path, {"priority": "low"}, **{"If-Match": '"1"'}).status_code == 412
        run = caller.post(f"{path}/run", {}).json()
        assert caller.get(f"/triggers/{run['id']}").json()["id"] == run["id"]
        assert caller.get(f"/triggers/{run['id']}/explain").status_code == 200
        assert caller.post(f"/triggers/{run['id']}/cancel").json()["state"] == "cancelled"
        assert caller.post("/dead-letters/replay", {"ids": [str(trigger.id)]}).json() == {"replayed": 1}
        assert rows(caller.get("/dead-letters")) == []
        answer = caller.get("/events")
        assert AS_OF not in answer.headers
        assert [event["kind"] for event in rows(answer)][-1] == "trigger.replayed"

    def test_knows_at_once_which_keys_are_good(self, caller: Caller, stopped: Replica) -> None:
        assert caller.get("/triggers").status_code == 200
        ApiKey.objects.update(revoked_at=factories.now())
        assert caller.get("/triggers").status_code == 401

    def test_is_not_read_from_the_replica_within_a_read_of_history(self, stopped: Replica) -> None:
        ApiKey.objects.update(name="renamed")

        def read(as_of: Any) -> list[str]:
            assert as_of is not None
            return list(ApiKey.objects.values_list("name", flat=True))

        assert history.read(read) == ["renamed"]

    def test_is_read_on_the_primary_within_a_transaction_which_may_have_written(
        self, caller: Caller, trigger: Trigger, stopped: Replica
    ) -> None:
        with db.atomic():
            Trigger.objects.filter(id=trigger.id).update(reason="poison")
            assert history.read(lambda as_of: (as_of, Trigger.objects.get(id=trigger.id).reason)) == (
                None,
                "poison",
            )

    def test_waits_for_no_write_that_went_before_it(self, stopped: Replica) -> None:
        """A reader that names its last write is sent to the primary until the replica has it."""
        factories.make_tenant()
        wrote_at = history.now()
        WATCH.look()
        assert history.read(lambda as_of: as_of, since=wrote_at) is None
        assert history.read(lambda as_of: as_of) is not None
        stopped.resume()
        stopped.catch_up()
        WATCH.look()
        assert history.read(lambda as_of: as_of, since=wrote_at) is not None


class TestTheAuditTrail:
    def test_is_read_without_a_gap_from_whichever_server(self, caller: Caller, replica: Replica) -> None:
        """A commit behind an open transaction is shown by neither server until that transaction has ended."""
        job = caller.post("/jobs", noop_job()).json()
        replica.catch_up()
        WATCH.look()
        seen = caller.get("/audit").json()
        parameters = db.connection.get_connection_params()
        known = {name: parameters[name] for name in ("host", "user", "dbname") if parameters.get(name)}
        with psycopg.connect(**known) as slow:
            slow.execute("UPDATE jobs_job SET name = 'slow' WHERE id = %s", [job["id"]])
            caller.post("/jobs", noop_job(name="quick"))
            for headers in ({}, {"Cache-Control": "no-cache"}):
                replica.catch_up()
                WATCH.look()
                answer = caller.get(f"/audit?after={seen['cursor']}", **headers)
                assert rows(answer) == []
                assert (AS_OF in answer.headers) is not bool(headers)
            slow.commit()
        replica.catch_up()
        WATCH.look()
        from_replica = caller.get(f"/audit?after={seen['cursor']}")
        assert AS_OF in from_replica.headers
        told = rows(from_replica)
        assert [row["object"]["name"] for row in told] == ["slow", "quick"]
        assert told == rows(caller.get(f"/audit?after={seen['cursor']}", **{"Cache-Control": "no-cache"}))


class TestAWriteByMistake:
    def test_fails_loudly_where_a_row_of_the_replica_is_saved(
        self, trigger: Trigger, stopped: Replica
    ) -> None:
        with pytest.raises(history.WriteOnReplica):
            history.read(lambda as_of: Trigger.objects.get(id=trigger.id).save())

    def test_fails_loudly_later_too(self, trigger: Trigger, stopped: Replica) -> None:
        row = history.read(lambda as_of: Trigger.objects.get(id=trigger.id))
        with pytest.raises(InternalError, match="read-only"):
            row.save()

    def test_fails_loudly_where_the_store_writes(self, trigger: Trigger, stopped: Replica) -> None:
        cancel = db.queries("trail")["note"].of_history
        values = {"tenant_id": None, "kind": "job", "object_id": "1", "name": "", "action": "updated"}
        with pytest.raises(history.WriteOnReplica):
            history.read(lambda as_of: cancel(**values, actor=None, changes="{}"))


class TestAReadThatTheReplicaGivesUp:
    """For changes that it must replay, or while its schema is that of a moment ago."""

    @pytest.mark.parametrize(
        "statement",
        ["SELECT pg_terminate_backend(pg_backend_pid())", "SELECT column_of_the_next_release FROM jobs_job"],
    )
    def test_is_made_again_on_the_primary(self, replica: Replica, statement: str) -> None:
        asked: list[str] = []

        def read(as_of: Any) -> str:
            asked.append(server_of_history())
            if as_of is not None:
                with connections[REPLICA].cursor() as cursor:
                    cursor.execute(statement)
            return asked[-1]

        assert history.read(read) == PRIMARY
        assert asked == [REPLICA, PRIMARY]
        WATCH.look()
        assert history.read(lambda as_of: server_of_history()) == REPLICA

    def test_is_not_made_again_where_it_took_too_long(self, replica: Replica) -> None:
        def read(as_of: Any) -> None:
            with connections[REPLICA].cursor() as cursor:
                cursor.execute("SET statement_timeout = 10")
                cursor.execute("SELECT pg_sleep(5)")

        with pytest.raises(db.DISCONNECTED, match="statement timeout"):
            history.read(read)

    def test_fails_as_ever_where_the_primary_is_what_failed(self, replica: Replica) -> None:
        def read(as_of: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT nothing")

        with pytest.raises(Exception, match='column "nothing" does not exist'):
            history.read(read)
        assert WATCH.condition().is_fit


class TestAPoolerBeforeIt:
    @pytest.fixture
    def pooler(self, replica: Replica) -> Iterator[Pooler]:
        opened = Pooler(Path(replica.socket) / ".s.PGSQL.5432", by_transaction=True)
        connections[REPLICA].close()
        del connections[REPLICA]
        yield opened
        opened.close()

    def test_is_read_through_and_left_as_it_was(
        self, caller: Caller, trigger: Trigger, replica: Replica, pooler: Pooler
    ) -> None:
        connections.settings[REPLICA] |= {
            "HOST": "127.0.0.1",
            "PORT": str(pooler.port),
            "DISABLE_SERVER_SIDE_CURSORS": True,
        }
        replica.catch_up()
        WATCH._sessions.pop(REPLICA).close()
        for _ in range(6):
            WATCH.look()
            assert AS_OF in caller.get("/triggers").headers
        assert any(b"SET LOCAL statement_timeout" in asked for asked in pooler.asked)
        name = connections.settings[REPLICA]["NAME"]
        with psycopg.connect(host="127.0.0.1", port=pooler.port, user="carillon", dbname=name) as next_owner:
            assert next_owner.execute(LEFT).fetchall() == []

    def test_is_refused_where_the_settings_do_not_tell_of_it(self, replica: Replica, pooler: Pooler) -> None:
        connections.settings[REPLICA] |= {"HOST": "127.0.0.1", "PORT": str(pooler.port)}
        with pytest.raises(SharedSessions, match="DATABASE_REPLICA_URL"):
            go_through_pooler()


def test_its_sessions_are_bounded_as_those_of_the_primary(replica: Replica) -> None:
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "application_name")

    def settings_of(alias: str) -> list[Any]:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(names)])
            return sorted(cursor.fetchall())

    with on_replica():
        assert settings_of(REPLICA) == settings_of(PRIMARY)
