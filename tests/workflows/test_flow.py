import pytest

from jobs.core.workflows.flow import (
    MAX_MAPS,
    MAX_REFERENCES,
    Reference,
    Unresolved,
    faults,
    filled,
    references,
    without_taken,
)
from jobs.core.workflows.graph import Edge

CHAIN = [Edge("extract", "load"), Edge("load", "report")]


def takes(source: object) -> dict[str, object]:
    return {"$from": source}


def faults_of(payload: object, key: str = "report") -> dict[str, str]:
    payloads: dict[str, object] = {"extract": {}, "load": {}, "report": {}, "beside": {}}
    return faults({each: {"payload": one} for each, one in (payloads | {key: payload}).items()}, CHAIN)


class TestFaults:
    @pytest.mark.parametrize(
        "source",
        [
            "extract.result",
            "extract.result.rows.0.id",
            "load.result.a-b",
            "workflow.input",
            "workflow.input.day",
            "run.scheduled_for",
        ],
    )
    def test_there_are_none_of_what_comes_before(self, source: str) -> None:
        assert faults_of({"rows": [{"x": takes(source)}]}) == {}

    @pytest.mark.parametrize(
        ("source", "wrong"),
        [
            ("beside.result", "beside is not upstream of report"),
            ("report.result", "report is not upstream of report"),
            ("nothing.result", "there is no task nothing"),
            ("extract", "Must be like extract.result.rows"),
            ("extract.state", "Must be like"),
            ("extract.result..rows", "Must be like"),
            ("run.scheduled_for.year", "Must be like"),
            ("run.input", "Must be like"),
            ("", "Must be like"),
            (5, "Must be like"),
        ],
    )
    def test_name_the_place(self, source: object, wrong: str) -> None:
        found = faults_of({"rows": [1, {"x": takes(source)}]})
        assert list(found) == ["tasks.report.payload.rows.1.x"]
        assert wrong in found["tasks.report.payload.rows.1.x"]

    def test_a_task_downstream_is_not_upstream(self) -> None:
        assert (
            "not upstream"
            in faults_of({"x": takes("report.result")}, key="extract")["tasks.extract.payload.x"]
        )

    def test_a_value_stands_alone_and_within_a_payload(self) -> None:
        assert (
            "the only name" in faults_of({"x": takes("extract.result") | {"or": 5}})["tasks.report.payload.x"]
        )
        assert "not for the whole payload" in faults_of(takes("extract.result"))["tasks.report.payload"]

    def test_of_maps_there_are_not_too_many(self) -> None:
        maps = {f"t{n}": {"payload": {}, "map.over": takes("workflow.input")} for n in range(MAX_MAPS)}
        assert faults(maps, []) == {}
        more = maps | {"more": maps["t0"]}
        assert faults(more, []) == {"tasks": "At most 10 tasks may be maps, not 11."}

    def test_there_are_not_too_many(self) -> None:
        many = [takes("extract.result")] * (MAX_REFERENCES + 1)
        assert faults_of({"x": many[1:]}) == {}
        assert "at most 32 values" in faults_of({"x": many})["tasks.report.payload"]


class TestWithoutTaken:
    def test_leaves_what_is_wrong_elsewhere(self) -> None:
        payload = {"n": takes("extract.result"), "rows": [1, takes("extract.result")], "name": 5}
        errors = {
            "payload.n": 1,
            "payload.n.$from": 1,
            "payload.rows[1]": 1,
            "payload.rows.1": 1,
            "payload.rows[0]": 2,
            "payload.name": 2,
            "payload": 2,
        }
        assert set(without_taken(errors, payload)) == {"payload.rows[0]", "payload.name", "payload"}


class TestFilled:
    def test_keeps_types_and_all_else(self) -> None:
        payload = {"rows": takes("extract.result.rows"), "at": [takes("run.scheduled_for"), "x"], "n": None}
        values = {
            Reference("extract", "result", ("rows",)): [1, {"a": None}],
            Reference("run", "scheduled_for", ()): "2026-01-01T00:00:00Z",
        }
        assert references(payload) == set(values)
        assert filled(payload, values) == {
            "rows": [1, {"a": None}],
            "at": ["2026-01-01T00:00:00Z", "x"],
            "n": None,
        }

    def test_names_what_there_is_not(self) -> None:
        assert filled({"x": takes("extract.result.rows.7")}, {}) == Unresolved(
            "There is no value at extract.result.rows.7."
        )

    @pytest.mark.parametrize("value", ["{{secret:token}}", ["a {{secret:x}}"], {"{{secret:x}}": 1}])
    def test_takes_no_placeholder_of_a_secret_over(self, value: object) -> None:
        reference = Reference("extract", "result", ())
        found = filled({"x": takes("extract.result")}, {reference: value})
        assert isinstance(found, Unresolved)
        assert "extract.result has the placeholder of a secret" in found.why

    def test_what_comes_from_elsewhere_is_not_filled_again(self) -> None:
        reference = Reference("extract", "result", ())
        inner = takes("workflow.input")
        assert filled({"x": takes("extract.result")}, {reference: inner}) == {"x": inner}
