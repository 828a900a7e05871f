"""``/installation``: the levers over all tenants, as a key of the installation sees and pulls them."""

from typing import Any

import pytest

from jobs.actions import levers
from jobs.actions.pull.types import declare_type
from jobs.core.pull import stored_name
from jobs.models import Answer, Change, Queue
from tenants.models import ApiKey
from tests.factories import dispatch, make_job, make_trigger
from tests.interfaces.api.caller import Caller, faulty_fields

STOP = {"dispatch": "stopped", "reason": "Incident 42."}


@pytest.fixture
def operator(owner: Caller) -> Caller:
    return Caller.of_installation()


def name_of(operator: Caller) -> str:
    return f"ck_{ApiKey.objects.get(tenant=None).prefix} tests"


class TestInstallation:
    def test_runs_from_the_start(self, operator: Caller) -> None:
        running = {"dispatch": "running", "stopped_at": None, "stopped_by": "", "reason": ""}
        assert operator.get("/installation").json() == running

    def test_is_stopped_in_the_name_of_its_key_and_started(self, operator: Caller) -> None:
        make_trigger()
        stopped = operator.patch("/installation", STOP)
        assert stopped.status_code == 200
        shown = stopped.json()
        assert (shown["dispatch"], shown["stopped_by"], shown["reason"]) == (
            "stopped",
            name_of(operator),
            "Incident 42.",
        )
        assert operator.get("/installation").json() == shown
        assert dispatch().queued == []
        assert operator.patch("/installation", {"dispatch": "running"}).json()["dispatch"] == "running"
        assert len(dispatch().queued) == 1
        rows = Change.objects.filter(kind="installation")
        assert [(row.actor_kind, row.actor) for row in rows] == [("api_key", name_of(operator))] * 2

    def test_may_be_told_twice_under_one_idempotency_key_or_none(self, operator: Caller) -> None:
        answers = [operator.patch("/installation", STOP, **{"Idempotency-Key": "k"}) for _ in range(2)]
        answers.append(operator.patch("/installation", STOP))
        assert len({answer.content for answer in answers}) == 1
        assert Change.objects.filter(kind="installation").count() == 1
        assert not Answer.objects.exists()

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, {"dispatch"}),
            ({"dispatch": "on"}, {"dispatch"}),
            ({"dispatch": "stopped"}, {"reason"}),
            ({"dispatch": "stopped", "reason": 7, "who": "me"}, {"reason", "who"}),
            ([], {"body"}),
        ],
    )
    def test_refuses_by_field(self, operator: Caller, body: Any, fields: set[str]) -> None:
        assert faulty_fields(operator.patch("/installation", body)) == fields
        assert operator.get("/installation").json()["dispatch"] == "running"


class TestJobTypes:
    def test_are_listed_with_their_levers_and_load(self, operator: Caller) -> None:
        make_trigger(state="running")
        operator.patch("/installation/job-types/noop", {"max_in_flight": 4})
        rows = {row["name"]: row for row in operator.get("/installation/job-types").json()["results"]}
        assert rows["noop"] == {
            "name": "noop",
            "paused": False,
            "paused_at": None,
            "paused_by": "",
            "reason": "",
            "max_in_flight": 4,
            "own_max_in_flight": None,
            "queued": 0,
            "running": 1,
        }
        assert operator.get("/installation/job-types/noop").json() == rows["noop"]

    def test_of_a_tenant_are_known_by_their_number(self, operator: Caller, owner: Caller) -> None:
        declare_type(tenant=owner.tenant, name="render", declaration={"max_in_flight": 9})
        name = stored_name("render", tenant_id=owner.tenant.id)
        path = f"/installation/job-types/{name}"
        assert operator.get(path).json()["own_max_in_flight"] == 9
        paused = operator.patch(path, {"paused": True, "reason": "Its workers fail.", "max_in_flight": 2})
        assert paused.json()["paused_by"] == name_of(operator)
        assert name in {row["name"] for row in operator.get("/installation/job-types").json()["results"]}
        trigger = make_trigger(make_job(owner.tenant, job_type=name))
        assert dispatch(types=[name]).queued == []
        explained = owner.get(f"/triggers/{trigger.id}/explain").json()
        assert "job_type" in explained["blocking"]
        # Tenants may not see the names of the installation.
        assert name_of(operator) not in str(explained)
        assert name not in str(explained["gates"])

    @pytest.mark.parametrize("name", ["nonesuch", "render@999999", "no%2Fop", "Noop"])
    def test_that_are_none_are_not_found(self, operator: Caller, name: str) -> None:
        assert operator.get(f"/installation/job-types/{name}").status_code == 404
        assert operator.patch(f"/installation/job-types/{name}", {"max_in_flight": 4}).status_code == 404
        assert not Queue.objects.exists()

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, {"body"}),
            ({"paused": True}, {"reason"}),
            ({"paused": "yes", "max_in_flight": 0}, {"paused", "max_in_flight"}),
            ({"max_in_flight": 1e9}, {"max_in_flight"}),
            ({"cap": 4}, {"cap"}),
        ],
    )
    def test_refuse_by_field(self, operator: Caller, body: Any, fields: set[str]) -> None:
        assert faulty_fields(operator.patch("/installation/job-types/noop", body)) == fields
        assert not Queue.objects.exists()


class TestTenants:
    def test_are_not_reached_with_a_key_of_the_installation(self, operator: Caller, owner: Caller) -> None:
        make_trigger(make_job(owner.tenant))
        for path in ("/jobs", "/triggers", "/tenant", "/audit", "/job-types", "/events"):
            assert operator.get(path).status_code == 403, path
        assert operator.post("/jobs", {}, **{"Idempotency-Key": "k"}).status_code == 403

    def test_see_nothing_of_the_trail_of_levers(self, operator: Caller) -> None:
        levers.change_installation(changes=STOP)
        tenants = Caller(make_trigger().tenant, scopes=("admin",))
        kinds = {row["object"]["kind"] for row in tenants.get("/audit").json()["results"]}
        assert "installation" not in kinds
