"""``carillon.workflows``: a workflow that a program describes is the one that ``workflows apply`` writes."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carillon.files.yaml_text import load
from carillon.workflows import Reference, Task, TaskOptions, Workflow, WorkflowOptions
from jobs.core.workflows.states import Condition, When
from jobs.models import WorkflowVersion
from jobs.shapes.workflow.definition import TaskShape, WorkflowDefinition
from tests.cli.conftest import Command
from tests.examples.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "workflows.md"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
#: A task's condition as Python has it: the attribute of the task before, or none.
CONDITIONS = st.none() | st.sampled_from([condition.value for condition in Condition])


def read(workflow: Workflow) -> Any:
    [(document, _)] = load(workflow.to_yaml(), source="printed")
    return document


def edges(workflow: Workflow) -> list[tuple[str, ...]]:
    return [tuple(edge.values()) for edge in workflow.to_dict()["edges"]]


@pytest.fixture
def etl() -> Workflow:
    return Workflow("etl")


@pytest.fixture
def tasks(etl: Workflow) -> list[Task]:
    return [etl.task(key, job_type="noop") for key in "abcd"]


def test_maps_and_waits_take_values_from_elsewhere(etl: Workflow) -> None:
    extract = etl.task("extract", job_type="noop")
    each = etl.task(
        "each",
        job_type="noop",
        map={"over": extract.result["rows"]},
        payload={"sleep_ms": etl.item["ms"], "fail": etl.index},
    )
    until = etl.task("until", wait={"type": "time", "until": extract.result["at"]})
    extract >> [each, until]
    tasks = WorkflowDefinition.read(read(etl)).tasks
    assert tasks["each"].map.over == {"$from": "extract.result.rows"}
    assert tasks["each"].payload == {"sleep_ms": {"$from": "map.item.ms"}, "fail": {"$from": "map.index"}}
    assert tasks["until"].wait.root.until == {"$from": "extract.result.at"}


class TestOptions:
    def test_are_those_of_the_server(self) -> None:
        assert list(TaskOptions.__annotations__) == list(TaskShape.model_fields)
        of_a_workflow = [
            name for name in WorkflowDefinition.model_fields if name not in ("name", "tasks", "edges")
        ]
        assert list(WorkflowOptions.__annotations__) == of_a_workflow

    def test_that_there_are_not_are_named(self, etl: Workflow) -> None:
        with pytest.raises(
            TypeError, match=r"Task load has no option retries; there are job_type, .*, when\."
        ):
            etl.task("load", job_type="noop", retries=3)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"Workflow x has no option parallel; there are on_failure, "):
            Workflow("x", parallel=3)  # type: ignore[call-arg]
        assert etl.to_dict()["tasks"] == {}

    def test_that_are_no_json_are_told_with_their_place(self, etl: Workflow) -> None:
        for wrong in (datetime(2030, 1, 31, tzinfo=UTC), float("nan"), {1, 2}):
            workflow = Workflow("etl")
            workflow.task("load", payload={"body": [{"day": wrong}]})
            with pytest.raises(TypeError, match=r"^tasks\.load\.payload\.body\.0\.day: .* is not JSON\."):
                workflow.to_yaml()
        etl.task("load", payload={"body": {1: 2}})
        with pytest.raises(TypeError, match=r"^tasks\.load\.payload\.body: a name must be a text, not 1\."):
            etl.to_yaml()


class TestEdges:
    def test_join_tasks_and_lists_of_them_on_either_side(self, etl: Workflow, tasks: list[Task]) -> None:
        a, b, c, d = tasks
        a >> [b, c] >> d
        assert edges(etl) == [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]

    def test_begin_at_a_list(self, etl: Workflow, tasks: list[Task]) -> None:
        a, b, c, _ = tasks
        [a, b.on_finished] >> c  # type: ignore[operator]
        assert edges(etl) == [("a", "c"), ("b", "c", "on_finished")]

    def test_have_the_condition_at_which_they_begin(self, etl: Workflow, tasks: list[Task]) -> None:
        a, b, c, d = tasks
        a.on_success >> b.on_failure >> [c, d]
        assert edges(etl) == [("a", "b", "on_success"), ("b", "c", "on_failure"), ("b", "d", "on_failure")]

    def test_join_tasks_of_one_workflow_only(self, etl: Workflow, tasks: list[Task]) -> None:
        other = Workflow("other").task("load", job_type="noop")
        for join in (lambda: tasks[0] >> other, lambda: other.on_failure >> tasks[0]):
            with pytest.raises(ValueError, match=r"belongs to workflow \w+, not to \w+\."):
                join()
        assert edges(etl) == []

    @pytest.mark.parametrize("other", ["b", None, ["b"], 3])
    def test_join_nothing_but_tasks(self, etl: Workflow, tasks: list[Task], other: Any) -> None:
        for join in (lambda: tasks[0] >> other, lambda: other >> tasks[0]):
            with pytest.raises(TypeError, match="unsupported operand"):
                join()
        assert edges(etl) == []

    def test_lead_through_no_empty_list(self, etl: Workflow, tasks: list[Task]) -> None:
        with pytest.raises(ValueError, match="An empty list joins no tasks"):
            tasks[0] >> [] >> tasks[1]
        assert edges(etl) == []

    def test_keys_come_once(self, etl: Workflow, tasks: list[Task]) -> None:
        with pytest.raises(ValueError, match="Workflow etl already has a task a"):
            etl.task("a")


class TestReferences:
    def test_are_written_as_paths(self, etl: Workflow, tasks: list[Task]) -> None:
        taken = (tasks[0].result["rows"][0], tasks[0].result, etl.input["day"], etl.scheduled_for)
        etl.task("load", payload={"body": taken})
        assert read(etl)["tasks"]["load"]["payload"]["body"] == [
            {"$from": path}
            for path in ("a.result.rows.0", "a.result", "workflow.input.day", "run.scheduled_for")
        ]

    @pytest.mark.parametrize("step", ["", "a.b", -1])
    def test_have_no_step_that_a_path_cannot_have(self, tasks: list[Task], step: Any) -> None:
        with pytest.raises(ValueError, match=r"^a\.result: a step is a name without a dot"):
            tasks[0].result[step]

    @pytest.mark.parametrize("step", [1.5, True, None, slice(1)])
    def test_have_steps_that_are_names_or_positions(self, tasks: list[Task], step: Any) -> None:
        with pytest.raises(TypeError, match=r"^a\.result: a step is a name or a position"):
            tasks[0].result[step]

    @pytest.mark.parametrize("use", [str, bool, list, "{}".format, "https://api.example.com/%s".__mod__])
    def test_are_no_values_of_the_program(self, tasks: list[Task], use: Callable[[Reference], Any]) -> None:
        with pytest.raises(TypeError, match=r"is known when the task starts|not iterable"):
            use(tasks[0].result["ok"])

    def test_of_another_workflow_are_refused(self, etl: Workflow) -> None:
        etl.task("load", payload={"rows": Workflow("other").task("extract").result})
        with pytest.raises(
            ValueError, match=r"^tasks\.load\.payload\.rows: extract\.result belongs to another"
        ):
            etl.to_yaml()


@given(
    payloads=st.lists(st.dictionaries(st.text(), JSON, max_size=3), min_size=1, max_size=6),
    whens=st.lists(st.sampled_from([when.value for when in When]), min_size=6, max_size=6),
    joined=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), CONDITIONS), max_size=10),
    on_failure=st.sampled_from(["halt", "continue"]),
)
def test_what_is_printed_reads_as_what_was_described(
    payloads: list[dict[str, Any]],
    whens: list[str],
    joined: list[tuple[int, int, str | None]],
    on_failure: str,
) -> None:
    workflow = Workflow("made", on_failure=on_failure)
    described = {
        f"t{nth}": {"job_type": "noop", "payload": payload, "when": when}
        for nth, (payload, when) in enumerate(zip(payloads, whens, strict=False))
    }
    tasks = [workflow.task(key, **options) for key, options in described.items()]  # type: ignore[arg-type]
    expected = []
    for before, after, condition in joined:
        one, other = tasks[before % len(tasks)], tasks[after % len(tasks)]
        (one if condition is None else getattr(one, condition)) >> other
        expected.append({"before": one.key, "after": other.key} | ({"on": condition} if condition else {}))
    assert read(workflow) == {
        "name": "made", "tasks": described, "edges": expected, "on_failure": on_failure,
    }  # fmt: skip


class TestThePage:
    """docs/workflows.md tells one workflow twice: as JSON and as Python."""

    BLOCKS = {block.language: block.text for block in reversed(blocks_of(PAGE))}

    @pytest.mark.django_db(transaction=True)
    def test_describes_in_python_the_workflow_of_its_json(self, carillon: Command, tmp_path: Path) -> None:
        program = tmp_path / "etl.py"
        program.write_text(self.BLOCKS["python"])
        printed = subprocess.check_output(
            [sys.executable, str(program)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, text=True
        )
        applied = carillon("workflows", "apply", "-f", "-", stdin=printed)
        assert (applied.code, applied.err) == (0, "etl: created.\n")
        told = WorkflowDefinition.read(json.loads(self.BLOCKS["json"]))
        assert WorkflowVersion.objects.get().definition == told.model_dump(mode="json")
