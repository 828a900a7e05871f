"""The audit trail: every change, in whichever way it is made, leaves a row with its author's name."""

import json
import runpy
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection, models, transaction
from django.test import Client

from jobs.actions.bulk.runner import IDLE_SECONDS, Runner
from jobs.actions.pull.types import declare_type
from jobs.engine.housekeeper import Housekeeper
from jobs.models import Change, Job, PullType, Workflow
from jobs.selection.walks import select
from jobs.store import execution
from jobs.store import jobs as job_store
from jobs.store.trail import Actor, acting_as, chain
from jobs.store.trail.actor import SIGNED_BY_HAND, WATCHED
from tenants.actions import create_api_key, revoke_api_key, update_tenant
from tenants.models import ApiKey, Secret, Tenant
from tenants.vault.rekey import rekey
from tenants.vault.secrets import delete_secret, put_secret
from tests.factories import make_job, make_tenant, make_trigger
from tests.interfaces.api.caller import Caller, noop_job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
BY = Actor("command", "manage.py tests by nobody")
ROOT = Path(__file__).parent.parent.parent
VALUE = "correct-horse-battery-staple"


def changes(**wanted: Any) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Action, actor and changes of the rows on the trail, in order."""
    found = Change.objects.filter(**wanted).order_by("id")
    return [(row.action, row.actor_kind, row.actor, row.changes) for row in found]


def forget() -> None:
    Change.objects.all().delete()


@pytest.fixture
def owner() -> Caller:
    caller = Caller(make_tenant(), scopes=("read", "write", "admin"))
    forget()
    return caller


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    forget()
    return client


def key_of(caller: Caller) -> str:
    return f"ck_{ApiKey.objects.get(tenant=caller.tenant).prefix} tests"


class TestOneRow:
    def test_is_left_by_a_call_of_the_api_in_its_keys_name(self, owner: Caller) -> None:
        job = owner.post("/jobs", noop_job()).json()
        owner.patch(f"/jobs/{job['id']}", {"priority": "high"})
        owner.post(f"/jobs/{job['id']}/pause")
        owner.delete(f"/jobs/{job['id']}")
        by = ("api_key", key_of(owner))
        assert changes(object_id=job["id"]) == [
            ("created", *by, {}),
            ("updated", *by, {"priority": [2, 1], "version": [1, 2]}),
            ("updated", *by, {"status": ["active", "paused"]}),
            ("updated", *by, {"status": ["paused", "cancelled"]}),
            ("deleted", *by, {}),
        ]
        assert Change.objects.exclude(object_id=job["id"]).count() == 0

    def test_is_left_for_each_of_a_bulk_creation(self, owner: Caller) -> None:
        owner.post("/jobs/bulk", {"jobs": [noop_job(name="one"), noop_job(name="two")]})
        assert changes(kind="job") == [("created", "api_key", key_of(owner), {})] * 2

    def test_is_left_by_a_page_of_the_admin_in_its_operators_name(self, root: Client) -> None:
        job = make_job()
        forget()
        root.post(f"/admin/jobs/job/{job.id}/pause/", {"_form_submitted": "on"})
        assert Job.objects.get(id=job.id).status == "paused"
        assert changes() == [("updated", "operator", "root", {"status": ["active", "paused"]})]

    def test_is_left_by_a_command_in_the_name_of_whoever_runs_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("getpass.getuser", lambda: "ops")
        monkeypatch.setattr("jobs.store.trail.actor._of_process", None)
        tenant = make_tenant()
        forget()
        monkeypatch.setattr("sys.argv", ["manage.py", "update_tenant", tenant.slug, "--weight", "7"])
        monkeypatch.setattr("django.db.connections.close_all", lambda: None)  # a command calls it at its end
        runpy.run_path(str(ROOT / "manage.py"), run_name="__main__")
        assert changes() == [
            ("updated", "command", "manage.py update_tenant by ops", {"weight": [100, 7]}),
        ]

    def test_is_left_by_sql_in_the_name_of_the_databases_user(self) -> None:
        job = make_job(priority=2)
        forget()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE jobs_job SET priority = 0 WHERE id = %s RETURNING session_user", [job.id])
            [user] = cursor.fetchone()
        assert changes() == [("updated", "database", user, {"priority": [2, 0]})]

    def test_is_left_by_the_engine_where_it_pauses(self) -> None:
        broken, gone = make_job(), make_job()
        forget()
        job_store.pause_broken(job_id=broken.id, reason="why")
        execution.pause_gone([make_trigger(gone, "dead").id])
        told = {"status": ["active", "paused"], "status_reason": ["", "why"]}
        assert changes(object_id=str(broken.id)) == [("updated", "engine", "engine", told)]
        assert [row[1] for row in changes(object_id=str(gone.id))] == ["engine"]

    def test_is_left_by_an_operation_in_the_name_of_who_asked_for_it(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        forget()
        owner.post("/operations", {"verb": "pause", "filter": {}})
        while Runner(select).turn() != IDLE_SECONDS:
            pass
        assert [(row[1], row[2]) for row in changes(object_id=str(job.id))] == [("api_key", key_of(owner))]

    def test_is_not_left_where_nothing_changes(self) -> None:
        job = make_job()
        forget()
        job.save()
        assert changes() == []


class TestTheActor:
    def test_holds_for_a_statement_that_commits_by_itself_and_for_no_other_on_the_connection(self) -> None:
        with acting_as(BY):
            tenant = make_tenant(name="100% 'odd'")
            Tenant.objects.filter(id=tenant.id).update(name="plain")
        assert [row[2] for row in changes(kind="tenant")] == [BY.name] * 2
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tenants_tenant SET weight = 9 WHERE id = %s", [tenant.id])

    @pytest.mark.django_db(transaction=True)
    def test_is_gone_with_its_transaction(self) -> None:
        """As behind a pooler that gives the connection to another client after each transaction."""
        with acting_as(BY):
            tenant = make_tenant()
            with transaction.atomic():
                Tenant.objects.filter(id=tenant.id).update(weight=7)
        Tenant.objects.filter(id=tenant.id).update(weight=9)
        assert [row[1] for row in changes(kind="tenant")] == ["command", "command", "database"]

    def test_outlives_a_savepoint_that_is_rolled_back(self) -> None:
        tenant = make_tenant()
        forget()
        with acting_as(BY), transaction.atomic():
            undone = transaction.savepoint()
            Tenant.objects.filter(id=tenant.id).update(weight=7)
            transaction.savepoint_rollback(undone)
            Tenant.objects.filter(id=tenant.id).update(weight=8)
        assert changes() == [("updated", BY.kind, BY.name, {"weight": [100, 8]})]

    @pytest.mark.parametrize("text", ["it's 100% %s", 'back\\slash "quoted"', "Jörg ; DROP TABLE x --"])
    def test_may_have_any_name(self, text: str) -> None:
        with acting_as(Actor("operator", text)):
            job = make_job()
            assert Job.objects.filter(id=job.id).update(priority=1) == 1
        assert {row[2] for row in changes(object_id=str(job.id))} == {text}

    def test_signs_many_statements_at_once(self) -> None:
        tenant = make_tenant()
        forget()
        with acting_as(BY), connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE tenants_tenant SET weight = %s WHERE id = %s", [(3, tenant.id), (4, tenant.id)]
            )
        assert [row[2] for row in changes()] == [BY.name] * 2

    def test_of_who_signs_in_is_the_operator_and_what_is_not_watched_is_not_told(
        self, client: Client
    ) -> None:
        User.objects.create_user("ops", password=VALUE, is_staff=True)
        forget()
        answer = client.post("/admin/login/", {"username": "ops", "password": VALUE, "next": "/admin/"})
        assert answer.status_code == 302  # ``last_login`` is not watched
        assert changes() == [("signed_in", "operator", "ops", {"address": [None, "127.0.0.1"]})]


class TestTheObjects:
    def test_are_types_limits_credentials_and_operators_each_with_what_changed(self) -> None:
        tenant = make_tenant()
        forget()
        with acting_as(BY):
            declare_type(tenant=tenant, name="invoice.render", declaration={})
            declare_type(tenant=tenant, name="invoice.render", declaration={"description": "PDFs"})
            update_tenant(tenant=tenant, max_in_flight=5)
            key, _ = create_api_key(tenant=tenant, name="deploy", scopes=["read"])
            revoke_api_key(key=key)
            PullType.objects.all().delete()
        assert {row.actor for row in Change.objects.all()} == {BY.name}
        assert {row.tenant_id for row in Change.objects.all()} == {tenant.id}
        found = [
            (row.kind, row.name, row.action, sorted(row.changes)) for row in Change.objects.order_by("id")
        ]
        assert found == [
            ("job_type", "invoice.render", "created", []),
            ("job_type", "invoice.render", "updated", ["description"]),
            ("tenant", tenant.slug, "updated", ["max_in_flight"]),
            ("api_key", f"ck_{key.prefix} deploy", "created", []),
            ("api_key", f"ck_{key.prefix} deploy", "updated", ["revoked_at"]),
            ("job_type", "invoice.render", "deleted", []),
        ]

    def test_are_operators_with_their_groups_and_permissions(self) -> None:
        forget()
        with acting_as(BY):
            user, group = User.objects.create_user("ann"), Group.objects.create(name="operators")
            user.groups.add(group)
            group.permissions.add(Permission.objects.get(codename="change_job"))
            user.set_password(VALUE)
            user.save()
            user.groups.clear()
            user.delete()
        assert [(row.kind, row.name, row.action, row.changes) for row in Change.objects.order_by("id")] == [
            ("user", "ann", "created", {}),
            ("group", "operators", "created", {}),
            ("user", "ann", "updated", {"groups": [None, "operators"]}),
            ("group", "operators", "updated", {"permissions": [None, "jobs.change_job"]}),
            ("user", "ann", "updated", {"password": None}),
            ("user", "ann", "updated", {"groups": ["operators", None]}),
            ("user", "ann", "deleted", {}),
        ]

    def test_are_secrets_of_which_nothing_is_kept_but_that_they_were_written(self, owner: Caller) -> None:
        with acting_as(BY):
            put_secret(tenant=owner.tenant, name="token", value=VALUE, hosts=["a.example"])
            put_secret(tenant=owner.tenant, name="token", value=VALUE + "2", hosts=["*"])
        owner.put("/signing-secret", {"secret": "whsec_" + "QUJD" * 8})
        owner.put("/signing-secret", {"secret": "whsec_" + "QUJE" * 8})
        owner.put("/tenant/notify", {"on": ["dead"], "url": f"https://ops.example/{VALUE}"})
        payload = {"url": f"https://a.example/{VALUE}"}
        job = owner.post("/jobs", noop_job(job_type="webhook", payload=payload)).json()
        owner.patch(f"/jobs/{job['id']}", {"payload": payload | {"method": "PUT"}})
        with acting_as(BY):
            delete_secret(tenant=owner.tenant, name="token")
        found = [(row.kind, row.action, row.changes) for row in Change.objects.order_by("id")]
        assert found == [
            ("secret", "created", {}),
            ("secret", "updated", {"hosts": [["a.example"], ["*"]], "version": [1, 2]}),
            ("tenant", "updated", {"webhook_secret": None}),
            ("tenant", "updated", {"notify": None}),
            ("job", "created", {}),
            ("job", "updated", {"payload": None, "version": [1, 2]}),
            ("secret", "deleted", {}),
        ]
        kept = json.dumps(list(Change.objects.values()), default=str)
        sealed = [*ApiKey.objects.values_list("secret_hash", flat=True), VALUE, "QUJD", "QUJE"]
        assert [text for text in sealed if text in kept] == []

    def test_are_not_secrets_that_are_sealed_anew(self, owner: Caller) -> None:
        put_secret(tenant=owner.tenant, name="token", value=VALUE, hosts=["a.example"])
        forget()
        Secret.objects.update(sealed="sealed under another key")
        list(rekey())
        assert changes() == []


class TestWhatIsWatched:
    """A new column is told of, or there is a decision that it tells nothing."""

    UNTOLD = {
        "jobs_job": {
            "next_fire_at",
            "watched",
            "target",
            "status_reason",
            "paused_until",
            "version",
            "expires_at",
            "workflow_id",
        },
        # Labels are part of the definition: a new version tells of them.
        "jobs_workflow": {"labels", "schedule_job_id"},
        "tenants_tenant": {"watched", "webhook_secret_retires_at"},
        "tenants_apikey": {"last_used_at"},
        "tenants_secret": {"sealed"},
        "auth_user": {"last_login", "date_joined"},
    }
    EVERYWHERE = {"id", "tenant_id", "created_at", "updated_at"}

    @pytest.mark.parametrize("model", [Job, PullType, Tenant, ApiKey, Secret, User, Workflow])
    def test_is_every_column_that_people_decide_on(self, model: type[models.Model]) -> None:
        table = model._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT a.attname FROM pg_trigger t JOIN pg_attribute a ON a.attrelid = t.tgrelid "
                "AND a.attnum = ANY (t.tgattr) WHERE t.tgrelid = %s::regclass AND t.tgname LIKE 'jobs_trail_%%'",
                [table],
            )
            watched = {row[0] for row in cursor.fetchall()}
        columns = {field.column for field in model._meta.concrete_fields}
        assert columns - watched == (self.EVERYWHERE & columns) | self.UNTOLD.get(table, set())

    def test_is_what_statements_are_signed_for(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE tgname LIKE 'jobs_trail_%%'"
            )
            assert {row[0] for row in cursor.fetchall()} == {*WATCHED, *SIGNED_BY_HAND}


class TestRetention:
    @pytest.mark.django_db(transaction=True)  # rows of an open transaction are not signed, and so not dropped
    def test_drops_what_is_older_and_keeps_the_rest(self, clock: Callable[[timedelta], None]) -> None:
        make_job()
        assert chain.sign() > 0
        clock(timedelta(days=401))
        young = make_job()
        housekeeper = Housekeeper(retention=timedelta(days=90), trail_retention=timedelta(days=400))
        housekeeper.keep()
        assert {row.object_id for row in Change.objects.all()} == {str(young.id), str(young.tenant_id)}
