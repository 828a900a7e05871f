"""How long tasks, items and inner runs waited only for the engine."""

from collections.abc import Iterator
from dataclasses import dataclass

from chaos.history import JobMade
from chaos.judge.workflows.graphs import needs_all
from chaos.judge.workflows.runs import parts
from chaos.judge.workflows.told import Told


@dataclass(frozen=True)
class Step:
    """A task, an item or an inner run that began, and since when only the engine made it wait; seconds since 1970."""

    job: JobMade
    due_at: float
    started_at: float


def steps(runs: list[Told]) -> Iterator[Step]:
    """The step of every task that waits for all before it, in runs that have no ``max_parallel``, were not cancelled,
    and were not begun by a schedule: runs of a schedule may have to wait for another one.
    """
    for each in runs:
        if each.workflow.max_parallel is not None or each.cancel or each.workflow.schedule:
            continue
        calls = [*each.generation.calls, *([each.generation.retry] if each.generation.retry else [])]
        for unit, began in _began(each):
            if needs_all(each.workflow, parts(unit)[0]) and (ready := each.unit_ready_at(unit)) <= began:
                # A caller may have held it until then.
                held = [
                    call.acknowledged_at or call.requested_at for call in calls if call.requested_at <= began
                ]
                yield Step(each.run.job(unit), min(max([ready, *held]), began), began)


def _began(each: Told) -> Iterator[tuple[str, float]]:
    for unit in each.jobs:
        if found := each.deliveries[unit]:
            yield unit, found[0].at
    for task, inner in each.inner.items():
        if inner:
            yield task, inner[0].begins_at
