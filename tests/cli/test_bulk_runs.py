"""``bulk pause-runs`` and the like from the command line: one verb for all runs that match."""

import pytest

from carillon import client
from jobs.actions.bulk.runner import Runner
from jobs.models import Operation, Workflow, WorkflowRun
from jobs.selection.walks import select
from tests.cli.conftest import ApiAdapter, Command
from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller
from tests.workflows.playing import begin, make_workflow, play

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def beat(api: ApiAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the command waits a beat carries operations on."""
    runner = Runner(select)
    monkeypatch.setattr(client, "pause", lambda seconds: runner.turn())


@pytest.fixture
def etl(owner: Caller) -> Workflow:
    return make_workflow(owner.tenant, ("extract", "load"), name="etl")


@pytest.fixture
def other(owner: Caller) -> WorkflowRun:
    """A run of another workflow, which no command below is about."""
    return begin(make_workflow(owner.tenant, tasks=["load"], name="other"))


def now(run: WorkflowRun) -> tuple[str, bool]:
    """Its state, and whether it is paused."""
    run.refresh_from_db()
    return run.state, run.paused_at is not None


class TestRunsOfAWorkflow:
    def test_are_counted_paused_and_resumed_by_its_name(
        self, carillon: Command, etl: Workflow, other: WorkflowRun
    ) -> None:
        runs = [begin(etl) for _ in range(3)]
        counted = carillon("bulk", "pause-runs", "--workflow", "etl", "--dry-run")
        assert (counted.code, counted.err) == (0, "3 match; nothing was done.\n")
        assert not Operation.objects.exists()
        done = carillon("bulk", "pause-runs", "--workflow", "etl")
        assert (done.code, done.err) == (0, "pause_runs: 3 done, 0 refused: finished.\n")
        assert {now(run) for run in runs} == {("running", True)}
        assert now(other) == ("running", False)
        line = ("bulk", "resume-runs", "--workflow", str(etl.id), "--per-second", "500")
        assert carillon(*line).err == "resume_runs: 3 done, 0 refused: finished.\n"
        assert Operation.objects.latest("id").per_second == 500
        assert {now(run) for run in runs} == {("running", False)}

    def test_are_cancelled_only_with_a_yes(
        self, carillon: Command, etl: Workflow, other: WorkflowRun
    ) -> None:
        runs = [begin(etl) for _ in range(2)]
        line = ("bulk", "cancel-runs", "--workflow", "etl", "--state", "running")
        refused = carillon(*line)
        assert (refused.code, "--yes" in refused.err) == (2, True)
        assert not Operation.objects.exists()
        assert carillon(*line, "--yes").code == 0
        assert {now(run) for run in runs} == {("cancelled", False)}
        assert now(other) == ("running", False)

    def test_go_on_from_what_failed(self, carillon: Command, etl: Workflow, other: WorkflowRun) -> None:
        failed, cancelled = begin(etl), begin(etl)
        carillon("workflows", "cancel", str(cancelled.id))
        play(failed, {"load": "dead"})
        assert now(other)[0] == "failed"
        assert carillon("bulk", "retry-runs", "--workflow", "etl", "-y").code == 0
        assert (now(failed)[0], now(cancelled)[0], now(other)[0]) == ("running", "cancelled", "failed")
        assert play(failed) == [["load"]]
        assert carillon("bulk", "retry-runs", "--workflow", "etl", "--state", "cancelled", "-y").code == 0
        assert (now(failed)[0], now(cancelled)[0]) == ("succeeded", "running")


class TestTheCommand:
    @pytest.mark.parametrize("verb", ["pause-runs", "resume-runs", "cancel-runs", "retry-runs"])
    def test_wants_filters_or_all(self, carillon: Command, api: ApiAdapter, verb: str) -> None:
        assert carillon("bulk", verb, "--yes").code == 2
        assert api.sent == []

    def test_names_a_workflow_or_a_state_that_there_is_not(self, carillon: Command, etl: Workflow) -> None:
        assert carillon("bulk", "pause-runs", "--workflow", "nowhere").code == 3
        for verb, state in (("pause-runs", "failed"), ("retry-runs", "running"), ("cancel-runs", "asleep")):
            refused = carillon("bulk", verb, "--state", state, "--yes")
            assert (refused.code, "filter.state → " in refused.err) == (1, True), refused.err
        assert not Operation.objects.exists()

    def test_leaves_the_runs_of_other_tenants_alone(self, carillon: Command, other: WorkflowRun) -> None:
        foreign = begin(make_workflow(make_tenant(), tasks=["load"]))
        assert carillon("bulk", "pause-runs", "--all").code == 0
        assert (now(other), now(foreign)) == (("running", True), ("running", False))

    def test_can_be_left_to_the_beats(self, carillon: Command, etl: Workflow) -> None:
        run = begin(etl)
        begun = carillon("bulk", "pause-runs", "--all", "--no-wait", "-o", "json").json
        assert (begun["verb"], begun["status"], now(run)) == ("pause_runs", "running", ("running", False))
        assert carillon("operations", "watch", begun["id"]).code == 0
        assert now(run) == ("running", True)
