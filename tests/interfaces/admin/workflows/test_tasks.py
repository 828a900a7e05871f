"""One task of a run in the console: what it waits for, its attempts, and the answers that a person may give it."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs.models import Change, Trigger, WorkflowRun
from jobs.store import workflows as store
from tenants.models import OperatorBounds
from tests import factories
from tests.interfaces.admin.workflows.pages import RUN, WORKFLOW, fragment, shown, task_rows
from tests.interfaces.admin.world import CONFIRMED, World, press, said, signed_in
from tests.workflows.playing import begin, claim_due, finish, make_workflow, play, states

pytestmark = pytest.mark.django_db(transaction=True)


class TestATask:
    def panel(self, client: Client, run: WorkflowRun, task: str) -> Any:
        return client.get(reverse("workflow_task", args=[run.id, task]))

    def test_tells_what_it_waits_for_and_comes_before(self, world: World, operator: Client) -> None:
        text = self.panel(operator, world.run, "load").content.decode()
        assert "It waits for" in text
        assert re.search(
            r"<dt>Before</dt><dd>load</dd>", self.panel(operator, world.run, "extract").content.decode()
        )
        assert 'id="task-told"' in shown(operator, RUN, world.run, "?task=load")
        assert 'id="task-told"' not in shown(operator, RUN, world.run, "?task=nowhere")
        assert self.panel(operator, world.run, "nowhere").status_code == 404

    def test_shows_its_attempts_and_leads_to_its_trigger_and_to_a_retry(
        self, world: World, operator: Client
    ) -> None:
        [row] = claim_due()
        finish([row], lambda _: "dead")
        world.run.refresh_from_db()
        text = self.panel(operator, world.run, "extract").content.decode()
        assert reverse("admin:jobs_trigger_change", args=[row.id]) in text
        assert reverse("admin:jobs_attempt_change", args=[row.attempt_id]) in text
        assert f"{reverse(f'admin:{RUN}_retry', args=[world.run.id])}?tasks=extract" in text
        bare = self.panel(signed_in("view_workflowrun"), world.run, "extract").content.decode()
        assert str(row.attempt_id) not in bare
        assert "Retry from here" not in bare

    @pytest.mark.parametrize(("verb", "ends"), [("approve", "succeeded"), ("refuse", "cancelled")])
    def test_that_asks_for_an_approval_is_answered_in_the_operators_name(
        self, world: World, operator: Client, verb: str, ends: str
    ) -> None:
        asks = {"type": "approval", "message": "Release <b>it</b>?"}
        run = begin(make_workflow(world.tenant, ("release", "tell"), waits={"release": asks}))
        text = self.panel(operator, run, "release").content.decode()
        assert "Release &lt;b&gt;it&lt;/b&gt;?" in text
        url = f"{reverse(f'admin:{RUN}_{verb}', args=[run.id])}?task=release"
        assert url in text
        viewer = signed_in("view_workflowrun")
        assert url not in self.panel(viewer, run, "release").content.decode()
        assert viewer.post(url, CONFIRMED | {"task": "release"}).status_code == 403
        assert 'value="release"' in operator.get(url).content.decode()
        Change.objects.all().delete()
        operator.post(url, CONFIRMED | {"task": "release", "comment": "seen"})
        assert states(run)["release"] == ends
        assert [one.actor for one in Change.objects.filter(kind="workflow")] == ["root"]
        assert "does not wait for an approval" in said(operator.post(url, CONFIRMED | {"task": "release"}))

    @pytest.mark.parametrize("named", ["paid", None])
    def test_that_waits_for_a_signal_is_given_it_with_a_payload(
        self, world: World, operator: Client, named: str | None
    ) -> None:
        wait = {"type": "signal", "name": named}
        run = begin(make_workflow(world.tenant, ("wait", "ship"), waits={"wait": wait}))
        name = named or "wait"
        url = f"{reverse(f'admin:{RUN}_signal', args=[run.id])}?name={name}"
        text = self.panel(operator, run, "wait").content.decode()
        assert f"It waits for the signal <b>{name}</b>" in text
        assert url in text
        viewer = signed_in("view_workflowrun")
        assert url not in self.panel(viewer, run, "wait").content.decode()
        assert viewer.post(url, CONFIRMED | {"name": name}).status_code == 403
        assert f'value="{name}"' in operator.get(url).content.decode()
        Change.objects.all().delete()
        for wrong in ('{"sum": 3', '{"sum": 3, "sum": 4}', f'"{"x" * 70_000}"'):
            answer = operator.post(url, CONFIRMED | {"name": name, "payload": wrong})
            assert answer.status_code == 200, wrong
            assert states(run)["wait"] == "started"
        assert "waits for the signal other" in said(operator.post(url, CONFIRMED | {"name": "other"}))
        assert not Change.objects.exists()
        answer = said(operator.post(url, CONFIRMED | {"name": name, "payload": '{"sum": 3}'}))
        assert f"Sent the signal {name}." in answer
        assert states(run) == {"wait": "succeeded", "ship": "started"}
        assert Trigger.objects.get(workflow_run_id=run.id, job_type="carillon.wait").result == {"sum": 3}
        [change] = Change.objects.filter(kind="workflow")
        assert (change.actor, "sum" in str(change.changes)) == ("root", False)
        assert change.changes[f"signal {name}"] == [None, "given"]
        assert url not in self.panel(operator, run, "wait").content.decode()

    def test_of_a_map_tells_of_its_items_that_did_not_succeed(self, world: World, operator: Client) -> None:
        over = {"each": {"over": {"$from": "workflow.input.list"}}}
        run = begin(make_workflow(world.tenant, tasks=["each"], maps=over), run_input={"list": [1, 2, 3]})
        text = shown(operator, RUN, run)
        assert task_rows(text)["each"]["state"] == "started"
        assert "0 of 3 items ended" in text
        mine = [row for row in claim_due() if Trigger.objects.get(id=row.id).workflow_run_id == run.id]
        finish(mine, lambda row: "dead" if row is mine[-1] else "succeeded")
        text = self.panel(operator, run, "each").content.decode()
        assert "3 of 3 items ended" in text
        assert len(re.findall(r"Item \d", text)) == 1
        asked = operator.get(reverse(f"admin:{RUN}_retry", args=[run.id])).content.decode()
        assert asked.count("each (failed)") == 1

    def test_that_is_a_run_of_another_workflow_leads_there_and_back(
        self, world: World, operator: Client
    ) -> None:
        make_workflow(world.tenant, ("x", "y"), name="load")
        outer = begin(make_workflow(world.tenant, tasks=["inner"], inner={"inner": {"name": "load"}}))
        factories.dispatch(types=["carillon.run"])
        [row] = factories.claim(*Trigger.objects.filter(job_type="carillon.run", state="queued"))
        inner_id = store.begin_inner(trigger_id=row.id, fence=row.fence, workflow="load")
        finish([row], lambda _: "succeeded")
        url = reverse(f"admin:{RUN}_change", args=[inner_id])
        assert f'href="{url}">Its run</a>' in shown(operator, RUN, outer, "?task=inner")
        assert "run of load" in shown(operator, WORKFLOW, outer.workflow)
        inner = WorkflowRun.objects.get(id=inner_id)
        assert reverse(f"admin:{RUN}_change", args=[outer.id]) in shown(operator, RUN, inner)

    def test_that_failed_is_gone_on_without(self, world: World, operator: Client) -> None:
        play(world.run, {"extract": "dead"})
        url = reverse(f"admin:{RUN}_retry", args=[world.run.id])
        assert "Goes on without extract." in said(operator.post(url, CONFIRMED | {"skip": ["extract"]}))
        assert play(world.run) == [["load"]]

    def test_of_another_tenant_is_not_there(self, world: World) -> None:
        stranger = signed_in("view_workflowrun")
        user_id = stranger.session["_auth_user_id"]
        bounds = OperatorBounds.objects.create(operator_id=user_id)
        bounds.tenants.add(factories.make_tenant())
        assert self.panel(stranger, world.run, "load").status_code == 404
        assert fragment(stranger, world.run).status_code == 404


class TestATriggerOfATask:
    """The task's hidden job has no page: links lead to the run, or to the workflow."""

    def test_is_linked_to_its_run_and_is_not_replayed_by_itself(self, world: World, operator: Client) -> None:
        [row] = claim_due()
        finish([row], lambda _: "dead")
        trigger = Trigger.objects.get(id=row.id)
        job_page = reverse("admin:jobs_job_change", args=[trigger.job_id])
        run_page = reverse(f"admin:{RUN}_change", args=[world.run.id])
        workflow_page = reverse(f"admin:{WORKFLOW}_change", args=[world.workflow.id])
        attempt_page = reverse("admin:jobs_attempt_change", args=[row.attempt_id])
        for url, link in (
            (reverse("admin:jobs_trigger_changelist"), run_page),
            (reverse("admin:jobs_trigger_change", args=[trigger.id]), run_page),
            (reverse("admin:jobs_deadletter_changelist"), run_page),
            (reverse("admin:jobs_attempt_changelist"), workflow_page),
            (attempt_page, workflow_page),
            (reverse("admin:tenants_tenant_change", args=[world.tenant.id]), ""),
        ):
            text = operator.get(url).content.decode()
            assert job_page not in text, url
            assert link in text, url
        text = shown(operator, "jobs_trigger", trigger)
        assert reverse("admin:jobs_trigger_replay", args=[trigger.id]) not in text

    def test_leads_from_the_audit_trail_to_the_workflow(self, world: World, operator: Client) -> None:
        press(operator, f"{RUN}_pause", world.run)
        text = operator.get(reverse("admin:jobs_change_changelist") + "?kind=workflow").content.decode()
        assert reverse(f"admin:{WORKFLOW}_change", args=[world.workflow.id]) in text
