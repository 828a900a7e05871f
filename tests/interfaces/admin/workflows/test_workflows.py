"""Workflows in the console: seen with their graphs and last runs, run now, and gone from the list once deleted."""

import pytest
from django.test import Client
from django.urls import reverse

from jobs.actions.workflows import definitions
from jobs.models import Change, WorkflowRun
from tests.interfaces.admin.workflows.pages import RUN, WORKFLOW, buttons, shown, task_rows
from tests.interfaces.admin.world import World, press
from tests.workflows.playing import begin, make_workflow, play

pytestmark = pytest.mark.django_db(transaction=True)


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
