"""Runs, replays and cancels on the audit trail: through each door, with their actor; many at once as one row."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.actions import triggers
from jobs.actions.bulk.runner import IDLE_SECONDS, Runner
from jobs.models import Change, Job, Trigger
from jobs.selection.walks import select
from jobs.store import lifecycle
from jobs.store.trail import Actor, acting_as
from tests.factories import make_job, make_tenant, make_trigger, make_triggers
from tests.interfaces.admin.world import CONFIRMED, confirm_shares
from tests.interfaces.api.caller import Caller
from tests.trail.test_trail import changes, forget, key_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
BY = Actor("command", "manage.py tests by nobody")


@pytest.fixture
def owner() -> Caller:
    return Caller(make_tenant(), scopes=("read", "write", "admin"))


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def job(owner: Caller) -> Job:
    job = make_job(owner.tenant, name="nightly")
    forget()
    return job


def dead(job: Job, count: int) -> list[Trigger]:
    made = make_triggers(job, count, state="dead", reason="exhausted")
    forget()
    return list(made)


def press(client: Client, name: str, *args: Any) -> None:
    assert client.post(reverse(f"admin:{name}", args=args), CONFIRMED).status_code == 302


class TestOneOfThem:
    @pytest.fixture(params=["api", "console"])
    def door(self, request: pytest.FixtureRequest, owner: Caller, root: Client) -> tuple[Any, Any]:
        """How the act is done, and who does it."""
        if request.param == "api":
            paths = {
                "run_now": "/jobs/{}/run",
                "replay": "/triggers/{}/replay",
                "cancel": "/triggers/{}/cancel",
            }

            def call(verb: str, one: Any) -> None:
                assert owner.post(paths[verb].format(one.id)).status_code in (200, 201)

            return call, ("api_key", key_of(owner))
        pages = {
            "run_now": "jobs_job_run_now",
            "replay": "jobs_trigger_replay",
            "cancel": "jobs_trigger_cancel",
        }
        return (lambda verb, one: press(root, pages[verb], one.id)), ("operator", "root")

    def test_names_who_ran_a_job(self, job: Job, door: tuple[Any, Any]) -> None:
        act, by = door
        forget()
        act("run_now", job)
        made = Trigger.objects.get(job=job)
        assert changes(kind="job", object_id=str(job.id)) == [("run", *by, {"trigger": [None, str(made.id)]})]

    def test_names_who_replayed_a_trigger(self, job: Job, door: tuple[Any, Any]) -> None:
        act, by = door
        [one] = dead(job, 1)
        act("replay", one)
        told = {"state": ["dead", "pending"], "job": [None, str(job.id)]}
        assert changes() == [("replayed", *by, told)]
        assert Change.objects.get().name == "nightly"

    @pytest.mark.parametrize(
        ("state", "told"),
        [
            ("pending", {"state": ["pending", "cancelled"]}),
            ("running", {"cancel_requested": [False, True]}),
        ],
    )
    def test_names_who_cancelled_a_trigger(
        self, job: Job, door: tuple[Any, Any], state: str, told: dict[str, Any]
    ) -> None:
        act, by = door
        one = make_trigger(job, state)
        forget()
        act("cancel", one)
        act("cancel", one)  # the second changes nothing
        assert changes(kind="trigger", object_id=str(one.id)) == [
            ("cancelled", *by, told | {"job": [None, str(job.id)]})
        ]
        assert Change.objects.count() == 1

    def test_does_not_keep_a_payload(self, owner: Caller, job: Job) -> None:
        Job.objects.filter(id=job.id).update(job_type="webhook")
        forget()
        payload = {"url": "https://a.example/swordfish"}
        assert owner.post(f"/jobs/{job.id}/run", {"payload": payload}).status_code == 201
        [(_, _, _, told)] = changes()
        assert (told["payload"], "swordfish" in str(told)) == (None, False)
        assert Trigger.objects.get(job=job).payload == payload

    def test_that_is_refused_leaves_no_row(self, owner: Caller, job: Job) -> None:
        ended, waiting = make_trigger(job, "succeeded"), make_trigger(job)
        forget()
        assert owner.post(f"/triggers/{ended.id}/cancel").status_code == 409
        assert owner.post(f"/triggers/{waiting.id}/replay").status_code == 409
        Job.objects.filter(id=job.id).update(status="paused")
        forget()
        assert owner.post(f"/jobs/{job.id}/run").status_code == 409
        assert changes() == []

    def test_costs_a_run_now_one_statement_at_most(self, owner: Caller, job: Job) -> None:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert owner.post(f"/jobs/{job.id}/run").status_code == 201
        ours = [one["sql"] for one in seen if "jobs_change" in one["sql"]]
        assert len(ours) == 1
        # A payload that the caller did not give is no longer written.
        assert not [one for one in seen if one["sql"].startswith('UPDATE "jobs_trigger"')]

    def test_is_told_by_its_triggers_page(self, root: Client, job: Job) -> None:
        [one] = dead(job, 1)
        page = root.get(reverse("admin:jobs_trigger_change", args=[one.id])).content.decode()
        assert f"?kind=trigger&amp;object={one.id}" in page


class TestManyAtOnce:
    def test_are_one_row_with_their_number_and_their_ids(self, owner: Caller, job: Job) -> None:
        many = dead(job, 30)
        running = make_trigger(job, "running")
        asked = [str(one.id) for one in many] + [str(running.id)]
        assert owner.post("/dead-letters/replay", {"ids": asked}).json() == {"replayed": 30}
        [(action, kind, name, told)] = changes()
        assert (action, kind, name) == ("replayed", "api_key", key_of(owner))
        assert told["triggers"] == [None, 30]
        assert set(told["ids"][1]) < set(asked)
        assert len(told["ids"][1]) == triggers.MAX_NAMED
        entry = Change.objects.get()
        assert (entry.kind, entry.object_id, entry.name) == (
            "tenant",
            str(owner.tenant.id),
            owner.tenant.slug,
        )

    @pytest.mark.parametrize("batch", [3, 7, 500])
    def test_are_one_row_with_their_number_and_filter_however_many_batches(
        self, owner: Caller, job: Job, monkeypatch: pytest.MonkeyPatch, batch: int
    ) -> None:
        dead(job, 7)
        make_trigger(make_job(owner.tenant, status="cancelled"), "dead", reason="exhausted")
        forget()
        real = triggers.replay_dead_letters
        monkeypatch.setattr(triggers, "replay_dead_letters", lambda **asked: real(**asked, batch=batch))
        sent = {"filter": {"reason": "exhausted"}}
        assert owner.post("/dead-letters/replay", sent).json() == {"replayed": 7}
        told = {"triggers": [None, 7], "filter": [None, {"reason": "exhausted"}]}
        assert changes() == [("replayed", "api_key", key_of(owner), told)]

    def test_are_told_of_with_the_first_that_is_replayed(
        self, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A process that is killed between two batches leaves no replay without an entry."""
        dead(job, 7)
        real, calls = lifecycle.replay, []

        def die(**asked: Any) -> Any:
            calls.append(asked)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return real(**asked)

        monkeypatch.setattr(lifecycle, "replay", die)
        with acting_as(BY), pytest.raises(KeyboardInterrupt):
            triggers.replay_dead_letters(tenant=job.tenant, batch=3)
        assert Trigger.objects.filter(state="pending").count() == 3
        assert changes() == [("replayed", BY.kind, BY.name, {"triggers": [None, 7], "filter": [None, {}]})]

    def test_that_are_dismissed_are_one_row_with_the_note(self, owner: Caller, job: Job) -> None:
        dead(job, 3)
        note = "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 500
        sent = {"filter": {"reason": "exhausted"}, "note": note}
        assert owner.post("/dead-letters/dismiss", sent).json() == {"dismissed": 3}
        told = {"triggers": [None, 3], "filter": [None, {"reason": "exhausted"}], "note": [None, note]}
        assert changes() == [("dismissed", "api_key", key_of(owner), told)]

    def test_are_nothing_where_nothing_is_replayed(self, owner: Caller, job: Job) -> None:
        assert owner.post("/dead-letters/replay", {"filter": {}}).json() == {"replayed": 0}
        assert owner.post("/dead-letters/replay", {"ids": [str(job.id)]}).json() == {"replayed": 0}
        assert changes() == []

    def test_of_the_console_are_a_row_for_each_tenant_with_the_pages_filter(
        self, root: Client, job: Job
    ) -> None:
        other = make_job()
        dead(job, 4)
        dead(other, 2)
        press_all = f"{reverse('admin:jobs_deadletter_replay')}?reason=exhausted"
        confirm_shares(root, press_all)
        found = {row.tenant_id: row.changes["triggers"][1] for row in Change.objects.all()}
        assert found == {job.tenant_id: 4, other.tenant_id: 2}
        assert {row.actor for row in Change.objects.all()} == {"root"}
        assert {row.changes["filter"][1]["reason"] for row in Change.objects.all()} == {"exhausted"}

    @pytest.mark.parametrize("across", ["0", "1"])
    def test_of_the_console_name_what_was_ticked(self, root: Client, job: Job, across: str) -> None:
        ids = [str(one.id) for one in dead(job, 2)]
        sent = {"action": "replay_selected", "_selected_action": ids, "select_across": across}
        root.post(reverse("admin:jobs_deadletter_changelist"), sent)
        if across == "1":
            assert changes() == []
            return
        [(action, kind, name, told)] = changes()
        assert (action, kind, name, told["triggers"]) == ("replayed", "operator", "root", [None, 2])
        assert told["ids"][1] == ids


class TestAnOperation:
    def run(self) -> None:
        while Runner(select).turn() != IDLE_SECONDS:
            pass

    def test_leaves_a_row_as_it_begins_and_one_as_it_ends(
        self, owner: Caller, job: Job, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobs.actions.bulk.operations.SLICE", 2)
        dead(job, 5)
        wanted = {"reason": "exhausted"}
        begun = owner.post("/operations", {"verb": "replay", "filter": wanted}).json()
        self.run()
        by = ("api_key", key_of(owner))
        assert changes(kind="operation", object_id=begun["id"], name="replay") == [
            ("created", *by, {"filter": [None, wanted]}),
            (
                "updated",
                *by,
                {
                    "filter": [None, wanted],
                    "status": ["running", "finished"],
                    "done": [None, 5],
                    "refused": [None, 0],
                },
            ),
        ]
        assert Change.objects.count() == 2

    def test_names_who_stopped_it(self, owner: Caller, job: Job) -> None:
        begun = owner.post("/operations", {"verb": "replay", "filter": {}}).json()
        other = Caller(owner.tenant)
        forget()
        other.post(f"/operations/{begun['id']}/cancel")
        other.post(f"/operations/{begun['id']}/cancel")
        [(action, kind, name, told)] = changes()
        assert (action, kind, told["status"]) == ("updated", "api_key", ["running", "cancelled"])
        assert name != key_of_first(owner)


def key_of_first(owner: Caller) -> str:
    return f"ck_{owner.tenant.api_keys.order_by('id').first().prefix} tests"
