"""Every route of the API against every kind of caller. A route without a row in ``routes.py`` fails the first test."""

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.actions.bulk.operations import begin_operation
from jobs.actions.pull.types import declare_type
from jobs.actions.targets import put_target
from jobs.api.urls import urlpatterns
from jobs.models import CatchUp, Installation, Job, Operation, Queue, Trigger, WorkflowRun
from tenants.actions import TENANT_SCOPES, create_api_key, revoke_api_key
from tenants.models import ApiKey, Secret, Tenant
from tenants.vault.secrets import put_secret
from tests.factories import HOUR, make_attempt, make_job, make_tenant, make_trigger, now
from tests.interfaces.api.caller import Caller, noop_job
from tests.interfaces.api.routes import (
    MISSING,
    OF_ONE_OBJECT,
    OF_TENANTS,
    PULL_TYPE,
    ROUTES,
    SCOPES,
    methods,
    served,
    with_ids,
    with_scope,
)
from tests.workflows.playing import begin, make_workflow


@pytest.fixture
def url(owner: Caller) -> Callable[[str], str]:
    """Fills a route in with the owner's objects, in a state the route can act on. Only those it may name are made."""

    def workflows(route: str) -> dict[str, object]:
        hourly = {"type": "cron", "cron": "@hourly"}
        workflow = make_workflow(owner.tenant, tasks=["extract"], schedule=hourly)
        run = begin(workflow) if "run_id" in route else None
        if run and route.endswith("retry"):
            WorkflowRun.objects.filter(id=run.id).update(state="failed", finished_at=now())
        made = backfill(Job.with_hidden.get(id=workflow.schedule_job_id)) if "backfill_id" in route else {}
        return {"workflow": workflow.id, "run": run.id if run else MISSING, **made}

    def backfill(job: Job) -> dict[str, object]:
        catch_up = CatchUp.objects.create(
            job=job,
            tenant_id=job.tenant_id,
            job_version=1,
            origin="backfill",
            policy="fire_all",
            from_at=now() - HOUR,
            until_at=now(),
            cursor=now() - HOUR,
            expected=60,
            created_at=now(),
        )
        return {"backfill": catch_up.id}

    def fill(route: str) -> str:
        job = make_job(owner.tenant)
        trigger = make_trigger(job, "dead" if route.endswith("replay") else "pending")
        made: dict[str, object] = {"job": job.id, "trigger": trigger.id, "name": job.name}
        kind = route.partition("/")[0]
        match kind:
            case "worker" | "job-types":
                for tenant in Tenant.objects.all() if kind == "worker" else [owner.tenant]:
                    declare_type(tenant=tenant, name=PULL_TYPE, declaration={})
            case "secrets" | "events" | "audit":
                put_secret(tenant=owner.tenant, name=PULL_TYPE, value="value of the owner", hosts=["*"])
            case "operations":
                made["operation"] = begin_operation(tenant=owner.tenant, verb="pause", wanted={}).id
            case "attempts" | "triggers":
                made["attempt"] = make_attempt(trigger).id
            case "workflows" | "workflow-runs":
                made |= workflows(route)
            case "jobs" if "backfill" in route:
                made |= backfill(job)
            case "installation":
                put_target(pattern="api.example.com", changes={"rate_per_second": 5})
                key, _ = create_api_key(tenant=owner.tenant, name="to be revoked", scopes=["read"])
                made |= {"slug": owner.tenant.slug, "prefix": key.prefix}
        return with_ids(route, **made)

    return fill


@pytest.fixture
def spent(owner: Caller) -> list[str]:
    """Headers with bad keys: expired, revoked, with a wrong secret; and an expired key of the installation."""
    every = {"tenant": owner.tenant, "name": "spent", "scopes": TENANT_SCOPES}
    operators = {"tenant": None, "name": "spent", "scopes": ("operator",), "expires_at": now() - HOUR}
    _, expired_operators = create_api_key(**operators)
    _, expired = create_api_key(**every, expires_at=now() - HOUR)
    revoked_key, revoked = create_api_key(**every)
    revoke_api_key(key=revoked_key)
    _, one = create_api_key(**every)
    mixed = one.rpartition("_")[0] + "_" + "y" * 43
    return [f"Bearer {token}" for token in (expired, revoked, mixed, expired_operators)]


class TestEveryRoute:
    def test_has_a_row_in_this_table(self) -> None:
        served = {(method, str(pattern.pattern)) for pattern in urlpatterns for method in methods(pattern)}
        assert served == set(ROUTES)

    @pytest.mark.parametrize(("method", "route"), ROUTES)
    def test_serves_its_owner(
        self, owner: Caller, url: Callable[[str], str], method: str, route: str
    ) -> None:
        body, status = ROUTES[method, route]
        response = served(owner, route).call(method, url(route), body)
        assert response.status_code == status, response.content

    @pytest.mark.parametrize(("method", "route"), OF_ONE_OBJECT)
    def test_tells_a_foreign_object_from_a_missing_one_to_nobody(
        self, owner: Caller, outsider: Caller, url: Callable[[str], str], method: str, route: str
    ) -> None:
        foreign = url(route)
        missing = with_ids(route, job=MISSING, trigger=MISSING, name=MISSING)
        before = _everything()
        outsider.get("/tenant")  # its first call of the minute also notes the use of the key
        answers, asked = [], []
        for path in (foreign, missing):
            with CaptureQueriesContext(connection) as queries:
                answers.append(outsider.call(method, path, ROUTES[method, route][0]))
            asked.append([re.sub("[0-9a-f-]{32,}|'[^']*'|[0-9]+", "?", query["sql"]) for query in queries])
        # The statements are the same, so that the time taken tells nothing either.
        assert asked[0] == asked[1]
        assert [answer.status_code for answer in answers] == [404, 404]
        problems = [answer.json() | {"instance": ""} for answer in answers]
        assert problems[0] == problems[1]
        own = ("Content-Length", "RateLimit")
        headers = [{name: answer[name] for name in answer.headers if name not in own} for answer in answers]
        assert headers[0] == headers[1]
        assert _everything() == before

    @pytest.mark.parametrize(
        ("method", "route"), [route for route in OF_TENANTS if route not in OF_ONE_OBJECT]
    )
    def test_shows_an_outsider_nothing_of_others(
        self, owner: Caller, outsider: Caller, url: Callable[[str], str], method: str, route: str
    ) -> None:
        url(route)
        before = _everything()
        path = "/" + route.replace("<str:name>", "another.type")
        response = outsider.call(method, path, ROUTES[method, route][0])
        assert response.status_code < 300 or response.status_code == ROUTES[method, route][1]
        assert not any(row_id and row_id in response.content.decode() for row_id, _, _ in before)
        own, after = (
            [row for row in rows if row[1] in (owner.tenant.id, None)] for rows in (before, _everything())
        )
        assert own == after

    @pytest.mark.parametrize(("method", "route"), ROUTES)
    def test_refuses_whoever_has_no_valid_key(
        self, owner: Caller, url: Callable[[str], str], spent: list[str], method: str, route: str
    ) -> None:
        path, before = url(route), _everything()
        unknown = "Bearer ck_aaaaaaaaaaaa_" + "x" * 43
        problems = []
        for header in (None, unknown, "Bearer", "Basic eDp5", "ck_\xff", *spent):
            headers = {} if header is None else {"Authorization": header}
            response = Caller().call(method, path, ROUTES[method, route][0], **headers)
            assert response.status_code == 401, header
            assert response["WWW-Authenticate"] == "Bearer"
            assert response["Content-Type"] == "application/problem+json"
            problems.append(response.json())
        assert problems[1:] == [problems[1]] * (len(problems) - 1)
        assert _everything() == before

    @pytest.mark.parametrize(("method", "route"), ROUTES)
    def test_wants_one_scope_and_takes_no_other(
        self, owner: Caller, url: Callable[[str], str], method: str, route: str
    ) -> None:
        path, (body, status) = url(route), ROUTES[method, route]
        wanted = SCOPES.get(route.partition("/")[0]) or ("read" if method == "GET" else "write")
        before = _everything()
        for scope in sorted(set(ApiKey.Scope.values) - {wanted}):
            response = with_scope(owner.tenant, scope).call(method, path, body)
            assert response.status_code == 403
            assert wanted in response.json()["detail"]
        assert _everything() == before
        assert with_scope(owner.tenant, wanted).call(method, path, body).status_code == status

    @pytest.mark.parametrize(("method", "route"), ROUTES)
    def test_refuses_a_query_parameter_it_does_not_know(
        self, owner: Caller, url: Callable[[str], str], method: str, route: str
    ) -> None:
        path, before = url(route), _everything()
        response = served(owner, route).call(method, f"{path}?bogus=1", ROUTES[method, route][0])
        assert response.status_code == 400
        assert [error["field"] for error in response.json()["errors"]] == ["bogus"]
        assert _everything() == before

    @pytest.mark.parametrize("route", sorted({route for _, route in ROUTES}))
    def test_answers_a_method_it_lacks_with_405(
        self, owner: Caller, url: Callable[[str], str], route: str
    ) -> None:
        caller = served(owner, route)
        lacking = next(method for method in ("PUT", "PATCH", "POST") if (method, route) not in ROUTES)
        path = url(route)
        for method, query in ((lacking, ""), ("TRACE", ""), ("TRACE", "?fields=id")):
            response = caller.call(method, path + query, {} if method == lacking else None)
            assert response.status_code == 405, method
            assert response["Content-Type"] == "application/problem+json"


class TestAnOutsider:
    """Ids of other tenants in filters, cursors and bodies."""

    @pytest.mark.parametrize("path", ["/triggers?job={job}", "/dead-letters?job={job}"])
    def test_filters_by_foreign_ids_and_finds_nothing(
        self, owner: Caller, outsider: Caller, path: str
    ) -> None:
        job = make_job(owner.tenant)
        make_trigger(job, "dead")
        assert len(owner.get(path.format(job=job.id)).json()["results"]) == 1
        theirs, missing = (outsider.get(path.format(job=wanted)) for wanted in (job.id, MISSING))
        assert (theirs.status_code, theirs.json()["results"]) == (200, [])
        assert theirs.content == missing.content

    @pytest.mark.parametrize("path", ["/jobs", "/triggers", "/dead-letters", "/secrets", "/events", "/audit"])
    def test_reads_on_from_a_foreign_cursor_in_its_own_rows(
        self, owner: Caller, outsider: Caller, path: str
    ) -> None:
        for caller in (owner, outsider):
            for name in ("aa", "bb", "cc"):
                make_trigger(make_job(caller.tenant), "dead")
                put_secret(tenant=caller.tenant, name=name, value="value of the owner", hosts=["*"])
        page = owner.get(f"{path}?page_size=1" if path not in ("/events", "/audit") else path).json()
        ids = {row_id for row_id, tenant_id, _ in _everything() if row_id and tenant_id == owner.tenant.id}
        follow = page.get("next")
        if follow:
            response = outsider.get(follow)
            assert response.status_code == 200
            assert not any(found in response.content.decode() for found in ids)

    @pytest.mark.parametrize("deed", ["replay", "dismiss"])
    def test_touches_no_foreign_dead_letter(self, deed: str, owner: Caller, outsider: Caller) -> None:
        dead = make_trigger(make_job(owner.tenant), "dead")
        before = _everything()
        for body in ({"ids": [str(dead.id)]}, {"filter": {"job": str(dead.job_id)}}):
            note = {"note": "Mended since."} if deed == "dismiss" else {}
            answer = outsider.post(f"/dead-letters/{deed}", {**body, **note})
            assert str(dead.id) not in answer.content.decode() or answer.status_code >= 400
            assert _everything() == before

    def test_reports_on_no_foreign_trigger(self, owner: Caller) -> None:
        trigger = make_trigger(make_job(owner.tenant), "running")
        stranger = Caller(make_tenant(), scopes=("worker",))
        before = _everything()
        token = {"trigger_id": str(trigger.id), "fence": trigger.fence}
        theirs = stranger.post("/worker/complete", {**token, "outcome": "succeeded"})
        missing = stranger.post("/worker/complete", {**token, "trigger_id": MISSING, "outcome": "succeeded"})
        assert (theirs.status_code, theirs.content) == (404, missing.content)
        beat = stranger.post("/worker/heartbeat", {"triggers": [token]})
        other = stranger.post("/worker/heartbeat", {"triggers": [{**token, "trigger_id": MISSING}]})
        assert beat.content.decode().replace(str(trigger.id), MISSING) == other.content.decode()
        assert _everything() == before


class TestKeys:
    def test_of_a_frozen_tenant_only_read(self, owner: Caller) -> None:
        owner.tenant.status = "frozen"
        owner.tenant.save()
        assert owner.get("/jobs").status_code == 200
        refused = owner.post("/jobs", noop_job())
        assert refused.status_code == 403
        assert "frozen" in refused.json()["detail"]

    def test_of_a_suspended_tenant_are_refused(self, owner: Caller) -> None:
        owner.tenant.status = "suspended"
        owner.tenant.save()
        assert owner.get("/jobs").status_code == 401


#: A row's id, if calls may show it, its tenant, and all of it. Of keys, only those that are revoked: callers make keys
#: of their own meanwhile, and the use of keys is noted.
_ROW = "SELECT {id} AS id, {tenant_id} AS tenant_id, one::text FROM {table} one WHERE {which}"
_PARTS = [
    *({"table": model._meta.db_table} for model in (Job, Trigger, Secret, Operation)),
    {"table": Tenant._meta.db_table, "id": "''", "tenant_id": "id"},
    *({"table": model._meta.db_table, "id": "''", "tenant_id": "null"} for model in (Installation, Queue)),
    {"table": ApiKey._meta.db_table, "id": "''", "which": "revoked_at IS NOT NULL"},
]
_USUAL = {"id": "id::text", "tenant_id": "tenant_id", "which": "true"}
EVERYTHING = " UNION ALL ".join(_ROW.format(**_USUAL | part) for part in _PARTS) + " ORDER BY 3"


def _everything() -> list[tuple[str, int | None, str]]:
    """Id, tenant and text of every row that a call might change. In one statement, as it is asked before and after."""
    with connection.cursor() as cursor:
        cursor.execute(EVERYTHING)
        return cursor.fetchall()
