"""An attacker who took over a process of Carillon, and so the application's role, wants to undo the audit trail.

Controls: the owner's role may do each of these things, and Carillon works as usual under the application's role.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, transaction
from psycopg import errors

from jobs.engine.housekeeper import Housekeeper
from jobs.models import Change, TrailCheckpoint
from jobs.store import partitions, trail
from jobs.store.trail import chain
from tenants.actions import update_tenant
from tests import factories
from tests.attacks.test_trail import sql
from tests.interfaces.api.caller import Caller, noop_job

pytestmark = pytest.mark.django_db(transaction=True)
ROLE = "carillon_application"
INSERT = "INSERT INTO jobs_change ({}at, kind, object_id, name, action, actor_kind, actor, changes) VALUES ({}now(), 'job', '7', 'x', 'updated', 'operator', 'x', '{{}}')"  # fmt: skip  # noqa: E501
ATTACKS = [
    "UPDATE jobs_change SET actor = 'somebody else'",
    "DELETE FROM jobs_change",
    "TRUNCATE jobs_change",
    "DROP TABLE jobs_change CASCADE",
    "ALTER TABLE jobs_change ALTER COLUMN actor DROP NOT NULL",
    INSERT.format("xid, ", "'1', "),
    INSERT.format("id, ", "1000000, "),
    "UPDATE jobs_trailcheckpoint SET made_at = now()",
    "DELETE FROM jobs_trailcheckpoint",
    "TRUNCATE jobs_trailcheckpoint",
    "ALTER TABLE jobs_job DISABLE TRIGGER jobs_trail_update",
    "DROP TRIGGER jobs_trail_rows ON tenants_apikey",
    "CREATE OR REPLACE FUNCTION carillon_actor() RETURNS jsonb LANGUAGE sql STABLE AS $$ SELECT '{}'::jsonb $$",
    "CREATE OR REPLACE FUNCTION carillon_trail_floor() RETURNS interval LANGUAGE sql IMMUTABLE "
    "BEGIN ATOMIC SELECT interval '0'; END",
    "SET session_replication_role = replica",
    "DELETE FROM django_migrations",
]


@contextmanager
def application() -> Iterator[None]:
    """This connection as the application's role, ``session_user`` included."""
    sql(f"SET SESSION AUTHORIZATION {ROLE}")
    try:
        yield
    finally:
        sql("RESET SESSION AUTHORIZATION")


@pytest.fixture
def role() -> Iterator[None]:
    [(owner,)] = sql("SELECT current_user")
    call_command("grant_roles", ROLE)
    yield
    sql("CREATE OR REPLACE FUNCTION carillon_trail_floor() RETURNS interval LANGUAGE sql IMMUTABLE "
        "BEGIN ATOMIC SELECT interval '0'; END")  # fmt: skip
    sql(f"REASSIGN OWNED BY {ROLE} TO {owner}")
    sql(f"DROP OWNED BY {ROLE}")
    sql(f"DROP ROLE {ROLE}")


@pytest.fixture
def told(role: None) -> None:
    tenant = factories.make_tenant()
    update_tenant(tenant=tenant, weight=7)
    assert chain.sign() > 0


class TestTheApplicationsRole:
    def test_cannot_undo_the_trail(self, told: None) -> None:
        before = [*Change.objects.order_by("id").values()], [*TrailCheckpoint.objects.values()]
        with application():
            for attack in ATTACKS:
                with pytest.raises(ProgrammingError) as refused, transaction.atomic():
                    sql(attack)
                assert isinstance(refused.value.__cause__, errors.InsufficientPrivilege), attack
        assert before == ([*Change.objects.order_by("id").values()], [*TrailCheckpoint.objects.values()])
        for attack in ATTACKS:  # control: the owner may do each
            with transaction.atomic():
                sql(attack)
                transaction.set_rollback(True)

    def test_cannot_become_the_owner(self, told: None) -> None:
        [(owner,)] = sql("SELECT current_user")
        with application():
            for attempt in (f"SET ROLE {owner}", f"GRANT {owner} TO {ROLE}", f"ALTER ROLE {ROLE} SUPERUSER"):
                with pytest.raises(ProgrammingError), transaction.atomic():
                    sql(attempt)

    def test_cannot_purge_what_is_within_retention(
        self, told: None, clock: Callable[[timedelta], None]
    ) -> None:
        with application():
            clock(timedelta(days=4000))  # the clock of its own session
            assert trail.purge(retention=timedelta(0), limit=1000) == 0
        call_command("grant_roles", ROLE)
        sql("CREATE OR REPLACE FUNCTION carillon_trail_floor() RETURNS interval LANGUAGE sql IMMUTABLE "
            "BEGIN ATOMIC SELECT interval '0'; END")  # fmt: skip
        with application():  # control: changes past it are purged
            assert trail.purge(retention=timedelta(0), limit=1000) > 0

    def test_does_all_that_processes_do(self, role: None, job_types: None) -> None:
        owner = Caller(factories.make_tenant(), scopes=("read", "write", "admin"))
        with application():
            created = owner.post("/jobs", noop_job(), expect=201).json()
            owner.patch(f"/jobs/{created['id']}", {"priority": "high"})
            trigger = factories.make_trigger(factories.make_job(owner.tenant, job_type="noop"), "pending")
            [queued] = factories.dispatch(types=("noop",)).queued
            assert queued.id == trigger.id
            housekeeper = Housekeeper(retention=timedelta(days=90), trail_retention=timedelta(days=400))
            housekeeper.keep()
            assert {step.name: step.figures().failures for step in housekeeper.steps} == {
                step.name: 0 for step in housekeeper.steps
            }
            sql("DROP TABLE IF EXISTS jobs_attempt_20200106")
            assert partitions.ensure(partitions.ATTEMPTS, ahead=9) != []
            assert owner.get("/audit").json()["results"] != []
            assert chain.verify(retention=timedelta(days=400)).findings == []


class TestGranting:
    def test_refuses_a_role_that_owns_what_is_kept_from_it(self) -> None:
        [(owner,)] = sql("SELECT current_user")
        with pytest.raises(CommandError, match="neither superuser nor owner"):
            call_command("grant_roles", owner)

    def test_wants_the_password_it_is_told_of(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_PASSWORD", "")
        with pytest.raises(CommandError, match="NO_PASSWORD is empty"):
            call_command("grant_roles", ROLE, "--password-from", "NO_PASSWORD")

    def test_lets_the_role_log_in_with_its_password(
        self, role: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("APPLICATION_PASSWORD", "correct-horse-battery")
        call_command("grant_roles", ROLE, "--password-from", "APPLICATION_PASSWORD")
        [(kept, login)] = sql("SELECT rolpassword, rolcanlogin FROM pg_authid WHERE rolname = %s", ROLE)
        assert (kept.split("$")[0], login) == ("SCRAM-SHA-256", True)


def test_every_table_of_the_trail_is_among_those_kept(role: None) -> None:
    rights: Any = sql(
        "SELECT DISTINCT table_name, privilege_type FROM information_schema.table_privileges "
        "WHERE grantee = %s AND table_name IN ('jobs_change', 'jobs_trailcheckpoint')",
        ROLE,
    )
    assert {right for _, right in rights} == {"SELECT"}
