"""Workflows in the console: seen with their graphs and runs, run now, paused, resumed, cancelled and retried."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.actions.workflows import definitions
from jobs.admin.workflows import rows
from jobs.models import Change, Trigger, WorkflowRun
from jobs.store import workflows as store
from tenants.models import OperatorBounds
from tests import factories
from tests.interfaces.admin.world import CONFIRMED, World, press, said, signed_in
from tests.workflows.playing import begin, claim_due, finish, make_workflow, play, states

pytestmark = pytest.mark.django_db(transaction=True)
RUN, WORKFLOW = "jobs_workflowrun", "jobs_workflow"


@pytest.fixture
def world() -> World:
    """With a run that has begun."""
    world = World()
    assert world.run.workflow_id == world.workflow.id
    return world


def shown(client: Client, page: str, row: Any, query: str = "") -> str:
    answer = client.get(reverse(f"admin:{page}_change", args=[row.pk]) + query)
    assert answer.status_code == 200
    return str(answer.content.decode())


def task_rows(text: str) -> dict[str, dict[str, str]]:
    """task -> what its row holds for the graph."""
    found = re.findall(r"<tr[^>]* data-task=\"(\w+)\"([^>]*)>", text)
    return {key: dict(re.findall(r'data-(\w+)="([^"]*)"', rest)) for key, rest in found}


def fragment(client: Client, run: WorkflowRun, query: str = "") -> Any:
    return client.get(reverse("workflow_run_progress", args=[run.id]) + query)


class TestAWorkflow:
    def test_is_listed_with_its_tasks_and_what_became_of_its_last_run(
        self, world: World, operator: Client
    ) -> None:
        play(world.run, {"extract": "dead"})
        begin(make_workflow(world.tenant, tasks=["only"], name="other"))
        text = operator.get(reverse(f"admin:{WORKFLOW}_changelist") + "?q=et").content.decode()
        assert "etl" in text
        assert "other" not in text
        assert "failed" in text
        row = operator.get(reverse(f"admin:{WORKFLOW}_changelist") + f"?q={world.workflow.id}")
        [listed] = row.context["cl"].result_list
        assert (listed.task_count, listed.last_run) == (2, world.run)

    def test_shows_the_graph_of_the_version_that_is_asked_for(self, world: World, operator: Client) -> None:
        definition = definitions.find_version(world.workflow, 1).definition
        order = ("extract", "load", "alert")  # which jsonb does not keep
        definition["tasks"] = {key: {"job_type": "noop"} for key in order}
        definition["edges"].append({"before": "load", "after": "alert", "on": "on_failure"})
        definitions.edit_workflow(tenant=world.tenant, workflow_id=world.workflow.id, definition=definition)
        text = shown(operator, WORKFLOW, world.workflow)
        assert tuple(task_rows(text)) == order
        assert task_rows(text)["alert"]["after"] == "[[&quot;load&quot;, &quot;on_failure&quot;]]"
        assert "load (on failure)" in text
        assert list(task_rows(shown(operator, WORKFLOW, world.workflow, "?version=1"))) == ["extract", "load"]
        missing = reverse(f"admin:{WORKFLOW}_change", args=[world.workflow.pk])
        assert operator.get(f"{missing}?version=9").status_code == 404

    def test_tells_of_tasks_that_wait_and_of_maps(self, world: World, operator: Client) -> None:
        waits = {"pause": {"type": "time", "seconds": 60}, "release": {"type": "approval"}}
        maps = {"each": {"over": {"$from": "workflow.input.list"}}}
        edges = (("pause", "release"), ("release", "each"))
        workflow = make_workflow(world.tenant, *edges, waits=waits, maps=maps)
        told = {key: row["detail"] for key, row in task_rows(shown(operator, WORKFLOW, workflow)).items()}
        assert told == {"pause": "wait: time", "release": "wait: approval", "each": "noop, for each item"}

    def test_runs_now_with_an_input_that_is_checked_at_its_field(
        self, world: World, operator: Client
    ) -> None:
        before = WorkflowRun.objects.count()
        page = f"{WORKFLOW}_run_now"
        for text, right in (
            ("{", "Not JSON"),
            ('{"x": 1, "x": 2}', "given twice"),
            (f'"{"x" * (world.tenant.max_payload_bytes + 1)}"', "bytes"),
        ):
            refused = press(operator, page, world.workflow, input=text)
            assert right in refused.content.decode(), text
        assert WorkflowRun.objects.count() == before
        begun = press(operator, page, world.workflow, input='{"day": "2030-01-31"}')
        run = WorkflowRun.objects.latest("id")
        assert begun.url == reverse(f"admin:{RUN}_change", args=[run.id])
        assert (run.input, run.workflow_id) == ({"day": "2030-01-31"}, world.workflow.id)
        told = Change.objects.get(kind="workflow", action="run", changes__run=[None, str(run.id)])
        assert (told.actor_kind, told.actor) == ("operator", "root")

    def test_that_is_deleted_is_out_of_the_list_and_cannot_run(self, world: World, operator: Client) -> None:
        play(world.run)
        definitions.delete_workflow(tenant=world.tenant, workflow_id=world.workflow.id)
        url = reverse(f"admin:{WORKFLOW}_changelist")
        assert operator.get(url).context["cl"].result_list == []
        assert len(operator.get(f"{url}?deleted=1").context["cl"].result_list) == 1
        assert f"{world.workflow.id}/run_now" not in shown(operator, WORKFLOW, world.workflow)
        assert press(operator, f"{WORKFLOW}_run_now", world.workflow).status_code == 404
        assert "retry" not in buttons(operator, world.run)


def buttons(client: Client, run: WorkflowRun) -> set[str]:
    text = shown(client, RUN, run)
    return {
        verb
        for verb in ("pause", "resume", "cancel", "retry")
        if reverse(f"admin:{RUN}_{verb}", args=[run.id]) in text
    }


class TestARun:
    def test_shows_each_task_with_its_state_and_what_it_waits_for(
        self, world: World, operator: Client
    ) -> None:
        found = task_rows(shown(operator, RUN, world.run))
        assert {key: row["state"] for key, row in found.items()} == {"extract": "pending", "load": "waiting"}
        assert "waits for extract" in shown(operator, RUN, world.run)
        play(world.run, {"extract": "dead"})
        found = task_rows(shown(operator, RUN, world.run))
        assert {key: (row["state"], row["icon"]) for key, row in found.items()} == {
            "extract": ("failed", "close"),
            "load": ("skipped", "skip_next"),
        }

    def test_has_a_bar_for_the_time_in_which_a_task_waited_and_ran(
        self, world: World, operator: Client
    ) -> None:
        claim_due()
        text = shown(operator, RUN, world.run)
        kinds = re.findall(r"gantt-bar gantt-(\w+)", text)
        assert kinds == ["waits", "running"]
        for left, width in re.findall(r"left: ([\d.]+)%; width: ([\d.]+)%", text):
            assert 0 <= float(left) <= float(left) + float(width) <= 100.01

    def test_is_paused_resumed_cancelled_and_retried_in_the_operators_name(
        self, world: World, operator: Client
    ) -> None:
        Change.objects.all().delete()
        assert buttons(operator, world.run) == {"pause", "cancel"}
        assert said(press(operator, f"{RUN}_pause", world.run)) == "Paused."
        assert buttons(operator, world.run) == {"resume", "cancel"}
        assert said(press(operator, f"{RUN}_resume", world.run)) == "Resumed."
        assert "asked to stop" in said(press(operator, f"{RUN}_cancel", world.run))
        assert buttons(operator, world.run) == {"retry"}
        assert "has ended" in said(press(operator, f"{RUN}_pause", world.run))
        assert "did not succeed" in said(press(operator, f"{RUN}_retry", world.run))
        assert play(world.run) == [["extract"], ["load"]]
        told = Change.objects.filter(kind="workflow").order_by("id")
        assert [(one.action, one.actor) for one in told] == [
            ("updated", "root"),
            ("updated", "root"),
            ("cancelled", "root"),
            ("replayed", "root"),
        ]

    def test_is_retried_from_the_tasks_that_are_chosen(self, world: World, operator: Client) -> None:
        play(world.run)
        url = reverse(f"admin:{RUN}_retry", args=[world.run.id])
        asked = operator.get(f"{url}?tasks=load").content.decode()
        assert re.search(r'value="load"[^>]*selected', asked)
        assert "choose the tasks" in operator.post(url, CONFIRMED).content.decode()
        refused = operator.post(url, {**CONFIRMED, "tasks": ["nowhere"]}).content.decode()
        assert "nowhere is not one of the available choices" in refused
        assert states(world.run) == {"extract": "succeeded", "load": "succeeded"}
        assert "Goes on from load." in said(operator.post(url, {**CONFIRMED, "tasks": ["load"]}))
        assert play(world.run) == [["load"]]

    def test_is_only_to_be_seen_without_the_permission(self, world: World) -> None:
        viewer = signed_in("view_workflowrun", "view_workflow")
        assert buttons(viewer, world.run) == set()
        assert fragment(viewer, world.run).status_code == 200
        for verb in ("pause", "resume", "cancel", "retry"):
            url = reverse(f"admin:{RUN}_{verb}", args=[world.run.id])
            assert viewer.post(url, CONFIRMED).status_code == 403
        url = reverse(f"admin:{WORKFLOW}_run_now", args=[world.workflow.id])
        assert viewer.post(url, CONFIRMED).status_code == 403
        assert states(world.run) == {"extract": "started", "load": "waiting"}

    def test_takes_no_write_without_a_token_against_forgery(self, world: World, operator: Client) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = operator.cookies
        for verb in ("pause", "cancel"):
            url = reverse(f"admin:{RUN}_{verb}", args=[world.run.id])
            assert strict.post(url, CONFIRMED).status_code == 403
        world.run.refresh_from_db()
        assert (world.run.state, world.run.paused_at) == ("running", None)

    def test_is_found_by_workflow_and_state(self, world: World, operator: Client) -> None:
        play(world.run)
        other = begin(make_workflow(world.tenant, tasks=["only"]))
        play(other, {"only": "dead"})
        again = begin(world.workflow)
        url = reverse(f"admin:{RUN}_changelist")
        for query, found in (
            ("", [again, other, world.run]),
            (f"?workflow__id__exact={world.workflow.id}", [again, world.run]),
            (f"?workflow__id__exact={other.workflow_id}", [other]),
            (f"?q={other.workflow_id}", [other]),
            ("?state__exact=succeeded", [world.run]),
            (f"?tenant__id__exact={world.tenant.id}&state__exact=failed", [other]),
            (f"?q={again.id}", [again]),
        ):
            listed = operator.get(url + query).context["cl"].result_list
            assert [run.id for run in listed] == [run.id for run in found], query


class TestProgress:
    def test_is_fetched_again_until_the_run_has_ended_and_then_the_page_is(
        self, world: World, operator: Client
    ) -> None:
        first = fragment(operator, world.run, "?seen=running")
        assert "hx-trigger" in first.content.decode()
        play(world.run)
        assert fragment(operator, world.run, "?seen=running")["HX-Refresh"] == "true"
        ended = fragment(operator, world.run)
        assert "every 2s" not in ended.content.decode()
        assert {row["state"] for row in task_rows(ended.content.decode()).values()} == {"succeeded"}

    def test_shows_the_tasks_of_one_state_and_then_draws_no_graph(
        self, world: World, operator: Client
    ) -> None:
        text = fragment(operator, world.run, "?only=waiting").content.decode()
        assert {key: row["after"] for key, row in task_rows(text).items()} == {"load": ""}
        assert len(task_rows(fragment(operator, world.run, "?only=<b>").content.decode())) == 2

    def test_asks_as_much_for_a_thousand_tasks_as_for_one_and_has_them_in_its_table(
        self, world: World, operator: Client
    ) -> None:
        def statements(run: WorkflowRun) -> tuple[int, str]:
            with CaptureQueriesContext(connection) as asked:
                text = shown(operator, RUN, run)
            return len(asked), text

        one = begin(make_workflow(world.tenant, tasks=["only"]))
        statements(one)
        few, _ = statements(one)
        fan = [("first", f"task_{number}") for number in range(999)]
        world.tenant.max_jobs = 10_000
        world.tenant.save(update_fields=["max_jobs"])
        many, text = statements(begin(make_workflow(world.tenant, *fan)))
        assert many == few
        assert len(task_rows(text)) == 1000
        assert not any(row["after"] for row in task_rows(text).values())
        assert f"drawn up to {rows.MAX_DRAWN} tasks" in text
        assert "every 10s" in text


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
        assert f"Gave the signal {name}." in answer
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
    """Its hidden job has no page: links lead to the run, or the workflow."""

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


def test_names_and_inputs_are_shown_as_text(world: World, operator: Client) -> None:
    name = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}"
    workflow = make_workflow(world.tenant, ("first", "second"), name="<script>alert(1)</script>")
    run = begin(workflow, run_input={"x": name})
    pages = [
        reverse(f"admin:{WORKFLOW}_changelist"),
        reverse(f"admin:{RUN}_changelist"),
        reverse(f"admin:{WORKFLOW}_change", args=[workflow.id]),
        reverse(f"admin:{RUN}_change", args=[run.id]),
        reverse(f"admin:{WORKFLOW}_run_now", args=[workflow.id]),
        f"{reverse(f'admin:{RUN}_changelist')}?workflow__id__exact={workflow.id}",
    ]
    for url in pages:
        text = operator.get(url).content.decode()
        assert "<script>alert" not in text, url
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text, url
    begun = press(operator, f"{WORKFLOW}_run_now", workflow)
    assert "<script>alert" not in operator.get(begun.url).content.decode()
