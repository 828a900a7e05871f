"""The rules for a sound graph of a workflow. A graph without a cycle has no task that cannot be reached."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from jobs.core.workflows.states import Condition, When

MAX_TASKS = 1_000
MAX_EDGES = 10_000


class Edge(NamedTuple):
    """``after`` may start once ``before`` has ended as ``condition`` says; None: as suits the ``when`` of ``after``."""

    before: str
    after: str
    condition: Condition | None = None

    def meaning(self, whens: Mapping[str, When]) -> Condition:
        return self.condition or whens[self.after].usual_condition

    def __str__(self) -> str:
        return f"{self.before} → {self.after}"


def faults(whens: Mapping[str, When], edges: Sequence[Edge]) -> dict[str, str]:
    """The faults in the graph of these tasks, by ``tasks``, ``edges`` or ``edges[<position>]``; empty: there are none.

    A cycle is reported, with its path, once the edges are sound one by one.
    """
    found: dict[str, str] = {}
    if not 0 < len(whens) <= MAX_TASKS:
        found["tasks"] = f"Must be 1 to {MAX_TASKS:,} tasks, not {len(whens):,}."
    if len(edges) > MAX_EDGES:
        found["edges"] = f"Must be at most {MAX_EDGES:,} edges, not {len(edges):,}."
    if found:
        return found
    first: dict[tuple[str, str], int] = {}
    for position, edge in enumerate(edges):
        if strange := [key for key in (edge.before, edge.after) if key not in whens]:
            found[f"edges[{position}]"] = f"{edge}: there is no task {strange[0]}."
        elif edge.before == edge.after:
            found[f"edges[{position}]"] = f"{edge}: a task cannot wait for itself."
        elif (before := first.setdefault((edge.before, edge.after), position)) != position:
            found[f"edges[{position}]"] = f"{edge}: edges[{before}] joins the same tasks."
    if not found and (cycle := _cycle(whens, edges)):
        found["edges"] = f"These tasks wait for each other: {' → '.join(cycle)}."
    return found


def _cycle(whens: Mapping[str, When], edges: Sequence[Edge]) -> list[str]:
    """The tasks of a cycle in the order in which they would run, the first also last; empty: there is none."""
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(whens, ()))
    for edge in edges:
        sorter.add(edge.after, edge.before)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
