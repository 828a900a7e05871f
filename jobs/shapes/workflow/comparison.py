"""Two versions of a workflow, side by side, as they are answered."""

from typing import Any

from jobs.shapes.base import LEFT_OUT, Shown
from jobs.shapes.workflow.definition import EdgeShape


class Changed(Shown):
    path: str
    """Path of the value, such as payload.body.rows: objects are compared member by member, lists as a whole."""
    before: Any = LEFT_OUT
    """Value before the edit; left out if there was none."""
    after: Any = LEFT_OUT
    """Value after the edit; left out if there is none any more."""


class ChangedTask(Shown):
    task: str
    changes: list[Changed]


class Comparison(Shown):
    """The effects of an edit from one version to the other. The order of tasks and edges is no difference."""

    before: int
    after: int
    """The numbers of the versions."""
    options: list[Changed]
    """Changes to options of the workflow as a whole, including its name."""
    tasks_added: list[str]
    tasks_removed: list[str]
    tasks_changed: list[ChangedTask]
    edges_added: list[EdgeShape]
    """An edge whose condition changed is removed and added."""
    edges_removed: list[EdgeShape]
