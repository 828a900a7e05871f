from itertools import pairwise

from jobs.core.workflows.graph import Edge, faults
from jobs.core.workflows.states import Condition, When


def whens(*keys: str) -> dict[str, When]:
    return dict.fromkeys(keys, When.ALL_SUCCESS)


class TestFaults:
    def test_a_diamond_has_none(self) -> None:
        edges = [Edge("a", "b"), Edge("a", "c"), Edge("b", "d"), Edge("c", "d")]
        assert faults(whens("a", "b", "c", "d"), edges) == {}

    def test_a_cycle_is_named_with_its_path(self) -> None:
        edges = [Edge("start", "a"), Edge("a", "b"), Edge("b", "a")]
        found = faults(whens("start", "a", "b"), edges)
        assert found["edges"] in (
            "These tasks wait for each other: a → b → a.",
            "These tasks wait for each other: b → a → b.",
        )

    def test_a_longer_cycle_is_named_in_the_order_of_its_edges(self) -> None:
        edges = [Edge("a", "b"), Edge("b", "c"), Edge("c", "a")]
        path = faults(whens("a", "b", "c"), edges)["edges"].removeprefix("These tasks wait for each other: ")
        tasks = path.rstrip(".").split(" → ")
        assert len(tasks) == 4
        assert {Edge(*pair) for pair in pairwise(tasks)} == set(edges)

    def test_edges_name_themselves(self) -> None:
        edges = [Edge("a", "b"), Edge("a", "a"), Edge("a", "b", Condition.ON_FAILURE), Edge("a", "z")]
        assert faults(whens("a", "b"), edges) == {
            "edges[1]": "a → a: a task cannot wait for itself.",
            "edges[2]": "a → b: edges[0] joins the same tasks.",
            "edges[3]": "a → z: there is no task z.",
        }

    def test_sizes_are_bounded(self) -> None:
        assert faults({}, []) == {"tasks": "Must be 1 to 1,000 tasks, not 0."}
        many = whens(*(f"t{number}" for number in range(1001)))
        assert faults(many, []) == {"tasks": "Must be 1 to 1,000 tasks, not 1,001."}
        assert "10,001" in faults(whens("a", "b"), [Edge("a", "b")] * 10_001)["edges"]


class TestMeaning:
    def test_an_edge_without_a_condition_asks_for_what_suits_the_task_after_it(self) -> None:
        kinds = {"a": When.ALL_SUCCESS, "b": When.ANY_FAILURE, "c": When.ALL_FINISHED}
        assert [Edge("a", key).meaning(kinds) for key in kinds] == [
            Condition.ON_SUCCESS,
            Condition.ON_FAILURE,
            Condition.ON_FINISHED,
        ]
        assert Edge("a", "b", Condition.ON_SUCCESS).meaning(kinds) is Condition.ON_SUCCESS
