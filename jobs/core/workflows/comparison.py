"""The difference of two definitions of a workflow: pure, for definitions that were read and written out again."""

from collections.abc import Mapping
from typing import Any

from jobs.core.json_rules import differences

_GRAPH = ("tasks", "edges")


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The additions, removals and changes from one definition to the other, each in the order of its definition.

    An edge whose condition changed is removed and added. Another order of tasks and edges is no difference.
    """
    old, new = before["tasks"], after["tasks"]
    changes = {key: list(differences(old[key], new[key])) for key in new if key in old}
    return {
        "options": list(differences(_options(before), _options(after))),
        "tasks_added": [key for key in new if key not in old],
        "tasks_removed": [key for key in old if key not in new],
        "tasks_changed": [{"task": key, "changes": found} for key, found in changes.items() if found],
        "edges_added": _edges_beyond(after, before),
        "edges_removed": _edges_beyond(before, after),
    }


def _options(definition: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in definition.items() if name not in _GRAPH}


def _edges_beyond(definition: Mapping[str, Any], other: Mapping[str, Any]) -> list[Any]:
    there = {tuple(edge.items()) for edge in other["edges"]}
    return [edge for edge in definition["edges"] if tuple(edge.items()) not in there]
