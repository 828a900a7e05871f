"""Two versions of a workflow, side by side, as they are answered."""

from typing import Any

from jobs.shapes.base import LEFT_OUT, Shown
from jobs.shapes.workflow.definition import EdgeShape


class Changed(Shown):
    path: str
    """Such as payload.body.rows: objects are compared member by member, lists as a whole."""
    before: Any = LEFT_OUT
    """Left out where there was none."""
    after: Any = LEFT_OUT
    """Left out where there is none any more."""


class ChangedTask(Shown):
    task: str
    changes: list[Changed]


class Comparison(Shown):
    """What an edit from one version to the other would do. The order of tasks and edges is no difference."""

    before: int
    after: int
    """The numbers of the versions."""
    options: list[Changed]
    """Of the workflow as a whole, its name among them."""
    tasks_added: list[str]
    tasks_removed: list[str]
    tasks_changed: list[ChangedTask]
    edges_added: list[EdgeShape]
    """An edge whose condition changed is removed and added."""
    edges_removed: list[EdgeShape]
