"""The judge: pure functions over a recorded history (DESIGN §2).

It knows what the API acknowledged, what the receiver saw, when faults struck, and what the ledger said at the end. It
asks nothing of the scheduler, so a verdict can be given again from the file alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from chaos.history import Record
from chaos.judge import executions, firings, timing
from chaos.judge.case import Case
from chaos.judge.executions import Repeats
from chaos.judge.verdict import Breach, Figures, Verdict

__all__ = ["Breach", "Case", "Figures", "Verdict", "judge"]


def judge(records: Iterable[Record]) -> Verdict:
    """Hold a history against the promises. May be repeated; the order of the records does not matter."""
    case, excused = Case(records), Counter[str]()
    repeats: Repeats = defaultdict(list)
    breaches = [
        *firings.lost(case, excused),
        *firings.unrecorded(case),
        *firings.doubled(case),
        *firings.early(case),
        *firings.phantom(case),
        *firings.poison(case),
        *firings.effects(case),
        *executions.repeated(case, excused, repeats),
        *executions.fences(case, excused),
        *executions.overlaps(case, excused),
        *_processes(case),
    ]
    figures = timing.figures(case, breaches, repeats)
    breaches += timing.bounds(case, figures)
    return Verdict(
        breaches=sorted(breaches, key=lambda breach: (breach.at, breach.kind, breach.job)),
        figures=figures,
        excused=excused,
        firings=sum(len(case.due(job)) for job in case.jobs.values()),
        deliveries=len(case.deliveries),
    )


def _processes(case: Case) -> Iterator[Breach]:
    """Processes that ended by themselves, and what the ledger's own audit found."""
    for death in case.deaths:
        detail = f"ended with {death.code}, and no fault had killed it"
        yield Breach(kind="died", at=death.at, job=death.process, detail=detail)
    for audit in case.audits:
        if not audit.passed:
            yield Breach(kind="audit", at=audit.at, job="all", detail=audit.says)
