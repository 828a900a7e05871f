"""The differences between two definitions: a table, and that all of them are told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.core.json_rules import differences, is_same
from jobs.core.workflows.comparison import compare

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["", "a", "a b", "x" * 50]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b", "a b", "x" * 50, "x" * 51]), inner, max_size=3)
    ),
    max_leaves=6,
)
NOTHING: dict[str, list[Any]] = {
    "options": [],
    "tasks_added": [],
    "tasks_removed": [],
    "tasks_changed": [],
    "edges_added": [],
    "edges_removed": [],
}


def definition(**more: Any) -> dict[str, Any]:
    return {
        "name": "etl",
        "tasks": {
            "extract": {"job_type": "noop", "payload": {"url": "a", "rows": [1, 2]}},
            "load": {"job_type": "noop", "payload": {}},
        },
        "edges": [{"before": "extract", "after": "load", "on": None}],
        "max_parallel": None,
        **more,
    }


def with_payload(payload: dict[str, Any]) -> dict[str, Any]:
    tasks = definition()["tasks"]
    return definition(tasks={**tasks, "extract": {"job_type": "noop", "payload": payload}})


def changed(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"tasks_changed": [{"task": "extract", "changes": list(changes)}]}


class TestCompare:
    @pytest.mark.parametrize(
        ("after", "told"),
        [
            (definition(), {}),
            (
                definition(max_parallel=3, name="other"),
                {
                    "options": [
                        {"path": "name", "before": "etl", "after": "other"},
                        {"path": "max_parallel", "before": None, "after": 3},
                    ]
                },
            ),
            (
                with_payload({"url": "b", "rows": [1, 2]}),
                changed({"path": "payload.url", "before": "a", "after": "b"}),
            ),
            (
                with_payload({"url": "a", "rows": [1, 3]}),
                changed({"path": "payload.rows", "before": [1, 2], "after": [1, 3]}),
            ),
            (
                with_payload({"url": None, "a b": 1}),
                changed(
                    {"path": "payload.url", "before": "a", "after": None},
                    {"path": "payload.rows", "before": [1, 2]},
                    {"path": 'payload["a b"]', "after": 1},
                ),
            ),
            (
                with_payload({"url": "a", "rows": [True, 2]}),
                changed({"path": "payload.rows", "before": [1, 2], "after": [True, 2]}),
            ),
            (
                definition(edges=[{"before": "extract", "after": "load", "on": "on_failure"}]),
                {
                    "edges_added": [{"before": "extract", "after": "load", "on": "on_failure"}],
                    "edges_removed": [{"before": "extract", "after": "load", "on": None}],
                },
            ),
            (
                definition(tasks={"load": {"job_type": "noop", "payload": {}}, "new": {}}, edges=[]),
                {
                    "tasks_added": ["new"],
                    "tasks_removed": ["extract"],
                    "edges_removed": [{"before": "extract", "after": "load", "on": None}],
                },
            ),
            (definition(tasks=dict(reversed(definition()["tasks"].items()))), {}),
        ],
    )
    def test_tells_what_was_added_removed_and_changed(
        self, after: dict[str, Any], told: dict[str, Any]
    ) -> None:
        assert compare(definition(), after) == NOTHING | told


@given(before=JSON, after=JSON)
def test_differences_name_each_path_once_and_are_none_of_what_is_the_same(before: Any, after: Any) -> None:
    found = list(differences(before, after))
    assert bool(found) != is_same(before, after)
    assert len({one["path"] for one in found}) == len(found)
    turned = {"path": "path", "before": "after", "after": "before"}
    back = [{turned[side]: value for side, value in one.items()} for one in differences(after, before)]
    assert all(any(is_same(one, other) for other in back) for one in found)
    assert len(back) == len(found)
