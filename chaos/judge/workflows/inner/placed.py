"""Which task of which run each inner run is: by the ledger, once that was read, else by its number and its moment."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from chaos.history import WorkflowMade
from chaos.judge.workflows.runs import Run

#: The id of an outer run, or of its workflow, and a task of it.
Place = tuple[str, str]


def inner_names(workflows: Iterable[WorkflowMade]) -> dict[tuple[str, str], list[Place]]:
    """By tenant and name, the workflows that tasks are runs of: each outer workflow, and the task."""
    found: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for made in workflows:
        for task, told in made.tasks.items():
            if name := told.get("inner"):
                found[made.tenant, name].append((made.workflow_id, task))
    return dict(found)


def place(
    runs: Mapping[str, Run],
    names: Mapping[tuple[str, str], list[Place]],
    began_at: Callable[[Run], float],
) -> dict[Place, list[Run]]:
    """The inner runs by outer run and task, in the order in which they began. Sets ``outer`` of each. ``names`` are
    those of ``inner_names``.
    """
    found: dict[Place, list[Run]] = defaultdict(list)
    for run in runs.values():
        outer = _outer(run, names.get((run.workflow.tenant, run.workflow.name), []), runs, began_at)
        if outer is not None:
            run.outer = outer
            found[outer].append(run)
    for each in found.values():
        each.sort(key=began_at)
    return found


def _outer(
    run: Run, tasks: list[Place], runs: Mapping[str, Run], began_at: Callable[[Run], float]
) -> Place | None:
    known = next((seen.outer_run_id for seen in run.seen if seen.outer_run_id), "")
    began = began_at(run)
    if known:
        others = [runs[known]] if known in runs else []
    else:
        numbered = [other for other in runs.values() if other.number == run.number]
        others = [other for other in numbered if began_at(other) <= began]
    candidates = [
        (began_at(other), other.id, task)
        for other in others
        for workflow_id, task in tasks
        if other.workflow.workflow_id == workflow_id
    ]
    # Retries may have begun several outer runs of one number, one after the other: it is of the last before it.
    _, outer_id, task = max(candidates, default=(0.0, "", ""))
    return (outer_id, task) if outer_id else None
