"""Notices of how runs of workflows end: asked for by the workflow, or by its tenant."""

from typing import Any

import pytest

from jobs.actions.workflows import runs
from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.engine.notices import notify
from jobs.models import Change, Event, Job, Trigger, Workflow, WorkflowRun
from jobs.store import db, events, execution
from jobs.store import workflows as store
from jobs.store.catchup.ledger import Run
from tenants.models import Tenant
from tenants.vault.secrets import delete_secret, put_secret
from tests import factories
from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.workflows.playing import begin, make_workflow, play

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]
URL = "https://ops.example/hook"
FAILED = {"on": ["failed"], "url": URL}
ENDS = {"on": ["succeeded", "failed", "cancelled"], "url": URL}


@pytest.fixture(autouse=True)
def begun(db: None) -> None:
    """The notifier stands at the feed's end."""
    assert notify() == 0


@pytest.fixture
def owner(settings: Any) -> Caller:
    settings.EMAIL_HOST = "mail.example"
    return Caller(make_tenant())


def etl(**more: Any) -> dict[str, Any]:
    return {"name": "etl", "tasks": {"load": {"job_type": "noop"}}, **more}


def created(owner: Caller, **more: Any) -> str:
    answer = owner.post("/workflows", etl(**more))
    assert answer.status_code == 201, answer.content
    return f"/workflows/{answer.json()['id']}"


def run_of(tenant: Tenant, ends: str = "succeeded", **options: Any) -> WorkflowRun:
    """One run of a workflow of one task. The task ends as ``ends`` says."""
    run = begin(make_workflow(tenant, tasks=["load"], **options))
    play(run, {"load": ends})
    return run


def told(tenant: Tenant) -> list[dict[str, Any]]:
    """The payloads of the tenant's notices, in order."""
    made = Trigger.objects.filter(tenant=tenant, job_type__in=("carillon.notice", "carillon.email"))
    return list(made.order_by("scheduled_for").values_list("payload", flat=True))


def kinds(tenant: Tenant) -> list[str]:
    return [payload["body"]["type"] for payload in told(tenant)]


class TestAWorkflow:
    def test_is_given_and_shown_its_notify(self, owner: Caller) -> None:
        asked = {"on": ["cancelled", "failed"], "url": URL, "email": "ops@example.com"}
        path = created(owner, notify=asked)
        shown = owner.get(path).json()
        assert shown["definition"]["notify"] == asked | {"on": ["failed", "cancelled"]}
        assert owner.put(path, shown["definition"]).json() == shown
        assert Caller(make_tenant()).get(path).status_code == 404

    def test_is_edited_and_relieved_of_it_by_new_versions(self, owner: Caller) -> None:
        path = created(owner)
        assert owner.put(path, etl(notify=FAILED)).json()["version"] == 2
        assert owner.put(path, etl(notify=None)).json()["version"] == 3
        assert Workflow.objects.get().notify is None
        compared = owner.get(f"{path}/versions/1/compare/2").json()
        assert compared["options"] == [{"path": "notify", "before": None, "after": FAILED}]
        owner.post(f"{path}/versions/2/restore")
        assert Workflow.objects.get().notify == FAILED

    @pytest.mark.parametrize(
        ("asked", "field"),
        [
            (URL, "notify"),
            ({"url": URL}, "notify.on"),
            ({"on": [], "url": URL}, "notify.on"),
            ({"on": ["paused"], "url": URL}, "notify.on[0]"),
            ({"on": ["run_failed"], "url": URL}, "notify.on[0]"),
            ({"on": ["failed"]}, "notify.url"),
            ({"on": ["failed"], "url": "ftp://x"}, "notify.url"),
            ({"on": ["failed"], "email": "nobody"}, "notify.email"),
            ({"on": ["failed"], "url": URL, "to": "x"}, "notify.to"),
        ],
    )
    def test_is_refused_what_cannot_be_done(self, owner: Caller, asked: Any, field: str) -> None:
        path = created(owner)
        assert faulty_fields(owner.post("/workflows", etl(name="other", notify=asked))) == {field}
        assert faulty_fields(owner.put(path, etl(notify=asked))) == {field}
        assert Workflow.objects.get().version == 1

    def test_is_refused_secrets_that_there_are_not(self, owner: Caller) -> None:
        asked = {"on": ["failed"], "url": "https://ops.example/{{secret:hook}}"}
        refused = owner.post("/workflows", etl(notify=asked))
        assert faulty_fields(refused) == {"notify.url"}
        assert "There is no secret hook" in refused.content.decode()
        put_secret(tenant=owner.tenant, name="hook", value="T0123456/B0123456", hosts=["ops.example"])
        path = created(owner, notify=asked)
        thief = asked | {"url": "https://thief.example/{{secret:hook}}"}
        assert faulty_fields(owner.put(path, etl(notify=thief))) == {"notify.url"}
        delete_secret(tenant=owner.tenant, name="hook")
        assert owner.put(path, etl(notify=asked, max_parallel=2)).status_code == 200
        other = asked | {"url": "https://ops.example/2/{{secret:hook}}"}
        assert faulty_fields(owner.put(path, etl(notify=other))) == {"notify.url"}

    def test_stays_readable_and_editable_once_no_e_mail_is_sent(self, owner: Caller, settings: Any) -> None:
        by_mail = {"on": ["failed"], "email": "ops@example.com"}
        path = created(owner, notify=by_mail)
        settings.EMAIL_HOST = ""
        assert owner.get(path).json()["definition"]["notify"] == by_mail
        assert faulty_fields(owner.put(path, etl(notify=by_mail, max_parallel=2))) == {"notify.email"}
        assert owner.put(path, etl(notify=FAILED)).status_code == 200
        assert owner.get(f"{path}/versions/1/compare/2").status_code == 200
        assert faulty_fields(owner.post(f"{path}/versions/1/restore")) == {"notify.email"}

    def test_tells_the_trail_that_it_changed_and_not_how(self, owner: Caller) -> None:
        path = created(owner)
        owner.put(path, etl(notify=FAILED))
        change = Change.objects.filter(kind="workflow").latest("id")
        assert change.changes == {"notify": None, "version": [1, 2]}


class TestARun:
    def test_that_failed_is_told_of_with_its_tasks(self) -> None:
        tenant = make_tenant()
        run = run_of(tenant, "dead", name="etl", notify=FAILED)
        assert [notify(), notify()] == [1, 0]
        [payload] = told(tenant)
        event = Event.objects.get(kind="workflow_run.failed")
        assert (payload["url"], payload["method"]) == (URL, "POST")
        assert payload["body"]["type"] == "workflow_run.failed"
        data = payload["body"]["data"]
        assert data.pop("scheduled_for")
        assert data.pop("seconds") > 0
        assert data == {
            "workflow_name": "etl",
            "workflow_id": str(run.workflow_id),
            "workflow_run_id": str(run.id),
            "version": 1,
            "failed_tasks": ["load"],
            "event_id": f"{event.xid}-{event.id}",
        }

    def test_is_told_of_however_it_ends_and_no_sooner(self) -> None:
        tenant = make_tenant()
        for ends in ("succeeded", "dead"):
            run_of(tenant, ends, notify=ENDS)
        run = begin(make_workflow(tenant, tasks=["load"], notify=ENDS))
        runs.pause_run(tenant=tenant, run_id=run.id)
        runs.resume_run(tenant=tenant, run_id=run.id)
        notify()
        assert kinds(tenant) == ["workflow_run.succeeded", "workflow_run.failed"]
        runs.cancel_run(tenant=tenant, run_id=run.id)
        notify()
        assert kinds(tenant)[2:] == ["workflow_run.cancelled"]
        assert told(tenant)[-1]["body"]["data"]["reason"] == "requested"

    def test_that_a_deadline_cancelled_says_so(self) -> None:
        tenant = make_tenant()
        run = begin(make_workflow(tenant, tasks=["load"], notify=ENDS))
        store.cancel_run(run_id=run.id, tenant_id=tenant.id, reason="deadline")
        notify()
        assert told(tenant)[0]["body"]["data"]["reason"] == "deadline"

    def test_is_told_of_only_if_that_was_asked_for(self) -> None:
        tenant = make_tenant()
        run_of(tenant, "dead")
        run_of(tenant, "succeeded", notify=FAILED)
        assert notify() == 0

    def test_that_is_retried_is_told_of_once_more(self) -> None:
        tenant = make_tenant()
        run = run_of(tenant, "dead", notify=ENDS)
        notify()
        runs.retry_run(tenant=tenant, run_id=run.id)
        play(run)
        notify()
        assert kinds(tenant) == ["workflow_run.failed", "workflow_run.succeeded"]

    def test_follows_the_present_notify_on_whatever_version_it_is(self) -> None:
        caller = Caller(make_tenant())
        path = created(caller, notify=FAILED | {"url": "https://ops.example/before"})
        run = begin(Workflow.objects.get())
        caller.put(path, etl(notify=FAILED))
        play(run, {"load": "dead"})
        notify()
        assert [payload["url"] for payload in told(caller.tenant)] == [URL]

    def test_goes_over_both_channels(self) -> None:
        tenant = make_tenant()
        run = run_of(tenant, "dead", name="etl {job_name}", notify=FAILED)
        Workflow.objects.update(notify=FAILED | {"email": "ops@example.com"})
        assert notify() == 2
        [mail] = [payload for payload in told(tenant) if "to" in payload]
        assert (mail["to"], mail["subject"]) == (
            "ops@example.com",
            "[Carillon] A run of etl {job_name} failed",
        )
        assert f"workflow run id: {run.id}" in mail["text"]

    def test_is_one_notice_with_others_that_ended_so(self) -> None:
        tenant = make_tenant()
        workflow = make_workflow(tenant, tasks=["load"], notify=ENDS)
        for _ in range(3):
            play(begin(workflow))
        assert notify() == 1
        assert told(tenant)[0]["body"]["data"]["events"] == 3


class TestASchedule:
    """A firing of the schedule that begins no run: there is no run to tell of."""

    HOURLY = {"type": "interval", "every_seconds": 3600}

    @classmethod
    def fail(cls, owner: Caller, **more: Any) -> Workflow:
        """One firing dies, and ten are skipped, of a schedule of a workflow with a name."""
        created(owner, schedule=cls.HOURLY, **more)
        found = Workflow.objects.get(tenant=owner.tenant)
        job = Job.with_hidden.get(id=found.schedule_job_id)
        trigger, attempt = factories.make_running(job)
        execution.finish([factories.finish_of(trigger, attempt, "dead", error_code="run_refused")])
        at = trigger.scheduled_for
        with db.atomic():
            events.note_ranges(
                [Run(job.id, owner.tenant.id, SCHEDULE_TYPE, 1, at, at, count=10, reason="misfire", floor=at)]
            )
        return found

    def test_that_begins_no_run_is_told_of_by_the_workflows_notify(self, owner: Caller) -> None:
        etl = self.fail(owner, notify={"on": ["dead", "failed"], "url": URL})
        assert notify() == 1
        [payload] = told(owner.tenant)
        data = payload["body"]["data"]
        assert payload["body"]["type"] == "trigger.dead"
        assert data["job_name"].startswith("etl (schedule ")
        assert (data["workflow_id"], data["error_code"]) == (str(etl.id), "run_refused")

    def test_is_told_of_by_the_tenants_words_for_jobs_where_the_workflow_has_none(
        self, owner: Caller
    ) -> None:
        owner.put("/tenant/notify", {"on": ["dead", "skipped", "run_failed"], "url": URL})
        self.fail(owner)
        notify()
        assert kinds(owner.tenant) == ["trigger.dead", "trigger.skipped"]

    def test_is_told_of_only_if_that_was_asked_for(self, owner: Caller) -> None:
        owner.put("/tenant/notify", {"on": ["dead", "skipped"], "url": URL})
        self.fail(owner, notify=ENDS)
        assert notify() == 0


class TestATenant:
    def test_speaks_for_workflows_that_say_nothing(self) -> None:
        tenant = make_tenant(notify={"on": ["run_failed"], "url": URL})
        run_of(tenant, "dead")
        run_of(tenant, "succeeded")
        run_of(tenant, "dead", notify={"on": ["succeeded"], "url": URL})
        notify()
        assert kinds(tenant) == ["workflow_run.failed"]

    def test_asks_for_runs_and_for_attempts_by_different_words(self) -> None:
        tenant = make_tenant(notify={"on": ["failed", "succeeded"], "url": URL})
        run_of(tenant, "dead")
        run_of(tenant, "succeeded")
        assert notify() == 0

    def test_hears_of_tasks_as_of_other_jobs(self) -> None:
        tenant = make_tenant(notify={"on": ["dead", "run_failed"], "url": URL})
        run_of(tenant, "dead", notify=FAILED)
        notify()
        assert sorted(kinds(tenant)) == ["trigger.dead", "workflow_run.failed"]

    def test_is_given_and_shown_its_words(self, owner: Caller) -> None:
        asked = {"on": ["dead", "run_succeeded", "run_failed", "run_cancelled"], "url": URL}
        assert owner.put("/tenant/notify", asked).json() == asked
        assert owner.get("/tenant").json()["notify"] == asked
        owner.tenant.refresh_from_db()
        assert not owner.tenant.watched
        refused = owner.put("/tenant/notify", {"on": ["cancelled"], "url": URL})
        assert faulty_fields(refused) == {"on[0]"}
