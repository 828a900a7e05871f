"""A workflow in a real browser: its graph is drawn, follows its run, and steers it."""

from jobs.core.workflows.states import RUN_TYPE
from jobs.models import Trigger, WorkflowRun
from tests import factories
from tests.browser.chromium import theme
from tests.browser.walk import Walk
from tests.engine.conftest import Perform, handler, perform
from tests.workflows.playing import begin, claim_due, finish, key_of, make_workflow

__all__ = ("handler", "perform")
EDGES = (
    ("extract", "clean"),
    ("extract", "check"),
    ("clean", "load"),
    ("check", "load"),
    ("load", "report"),
    ("load", "alert", "on_failure"),
    ("report", "tidy", "on_finished"),
)


def states(walk: Walk) -> dict[str, str]:
    """task -> the state that its node in the graph shows."""
    found: dict[str, str] = walk.browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.flow-task')]"
        ".map((one) => [one.children[1].textContent, one.dataset.state]))"
    )
    return found


def places(walk: Walk) -> dict[str, list[float]]:
    found: dict[str, list[float]] = walk.browser.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('.flow-task')].map((one) => {"
        "const box = one.getBoundingClientRect();"
        "return [one.children[1].textContent, [box.left, box.top, box.right, box.bottom]]}))"
    )
    return found


class TestAWorkflow:
    def test_is_run_and_seen_while_it_goes_on_and_retried_from_a_task(self, walk: Walk) -> None:
        make_workflow(factories.make_tenant(), *EDGES, name="etl")
        walk.click("Workflows")
        walk.click("etl", within="#result_list")
        walk.shown(".flow-task")
        walk.click("Run now")
        walk.press("#dialog button[type=submit]")
        walk.reads("waits for extract", within="#tasks")
        assert states(walk)["extract"] == "pending"
        finish(claim_due(), lambda _: "succeeded")
        walk.shown(".flow-task[data-state=succeeded]")  # the page has fetched it by itself
        while rows := claim_due():
            finish(rows, lambda row: "dead" if key_of(row.id) == "check" else "succeeded")
        walk.reads("FAILED", within="#run-state")
        assert states(walk)["load"] == "skipped"
        walk.press(".flow-task[data-state=failed]")
        walk.reads("Task check", within="#task-panel")
        walk.click("Retry from here", within="#task-panel")
        walk.press("#dialog button[type=submit]")
        walk.reads("Goes on from check.")
        assert WorkflowRun.objects.get().state == "running"

    def test_leads_from_a_task_to_its_run_which_waits_for_a_signal_and_is_given_it(
        self, walk: Walk, perform: Perform
    ) -> None:
        tenant = factories.make_tenant()
        waits = {"approved": {"type": "signal", "name": "approved"}}
        make_workflow(tenant, ("count", "approved"), ("approved", "send"), waits=waits, name="billing")
        run = begin(
            make_workflow(tenant, ("bill", "report"), inner={"bill": {"name": "billing"}}, name="month end")
        )
        factories.dispatch(types=[RUN_TYPE])
        perform(Trigger.objects.get(job_type=RUN_TYPE))
        finish(claim_due(), lambda _: "succeeded")
        walk.browser.get(f"{walk.browser.current_url}jobs/workflowrun/{run.id}/change/?task=bill")
        walk.click("Its run", within="#task-panel")
        walk.reads("approved", within="#tasks")
        walk.press("#task-approved")
        walk.reads("It waits for the signal approved", within="#task-panel")
        walk.click("Send", within="#task-panel")
        walk.press("#dialog button[type=submit]")
        walk.reads("Sent the signal approved.")
        [row] = claim_due()
        assert key_of(row.id) == "send"

    def test_has_no_two_tasks_of_its_graph_in_one_place_in_light_or_dark(self, walk: Walk) -> None:
        run = begin(make_workflow(factories.make_tenant(), *EDGES, name="etl"))
        walk.browser.get(f"{walk.browser.current_url}jobs/workflowrun/{run.id}/change/")
        for scheme in ("light", "dark"):
            theme(walk.browser, scheme)
            walk.shown(".flow-task")
            boxes = list(places(walk).items())
            assert len(boxes) == 7
            for nth, (key, (left, top, right, bottom)) in enumerate(boxes):
                for other, box in boxes[nth + 1 :]:
                    apart = right <= box[0] or box[2] <= left or bottom <= box[1] or box[3] <= top
                    assert apart, (key, other)
            assert places(walk)["extract"][2] < places(walk)["load"][0]
        assert len(walk.browser.find_elements("css selector", ".flow-edge")) == len(EDGES)

    def test_of_many_tasks_is_a_table_alone(self, walk: Walk) -> None:
        tenant = factories.make_tenant(max_jobs=1_000)
        fan = [("first", f"task_{number}") for number in range(160)]
        run = begin(make_workflow(tenant, *fan, name="wide"))
        page = f"{walk.browser.current_url}jobs/workflowrun/{run.id}/change/"
        walk.browser.get(page)
        walk.reads("task_159", within="#tasks")
        assert places(walk) == {}
        walk.browser.get(f"{page}?only=waiting")
        walk.reads("All tasks", within="#task-counts")
        assert "\nfirst" not in walk.shown("#tasks").text
