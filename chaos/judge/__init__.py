"""The judge: pure functions over a recorded history (DESIGN §2).

It knows the calls that the API acknowledged, the requests that the receiver saw, the times of the faults, and the
ledger at the end. It asks the scheduler nothing, so a verdict can be given again from the file alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from chaos.history import Attacked, Record
from chaos.judge import executions, firings, timing
from chaos.judge.case import Case
from chaos.judge.executions import Repeats
from chaos.judge.limits import LOST_SECONDS
from chaos.judge.verdict import Breach, Figures, Verdict
from chaos.judge.workflows import checks
from chaos.judge.workflows.runs import NEVER
from chaos.judge.workflows.told import told

__all__ = ["Breach", "Case", "Figures", "Verdict", "judge"]

#: How the API says that it cannot at present.
UNAVAILABLE = "503 application/problem+json"
_OF_LOST_WRITES = {
    "lost", "unrecorded", "doubled firing", "doubled run", "executed twice", "effect", "fence", "overlap", "quota",
    "stopped", "phantom", "audit", "early", "task", "value", "orphan", "deadline",
}  # fmt: skip


def judge(records: Iterable[Record]) -> Verdict:
    """Hold a history against the promises. May be repeated; the order of the records does not matter."""
    case, excused = Case(records), Counter[str]()
    runs = told(case)
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
        *checks.judged(case, runs, excused),
        *_processes(case),
        *_servers(case, excused),
    ]
    figures = timing.figures(case, runs, breaches, repeats)
    breaches += [*timing.bounds(case, figures), *timing.shared_fate(case, runs), *timing.calls(case)]
    breaches = list(_condemned(case, breaches, excused))
    return Verdict(
        breaches=sorted(breaches, key=lambda breach: (breach.at, breach.kind, breach.job)),
        figures=figures,
        excused=excused,
        firings=sum(len(case.due(job)) for job in case.jobs.values()) + sum(each.required() for each in runs),
        runs=len(case.runs),
        deliveries=len(case.deliveries),
    )


def _condemned(case: Case, breaches: Iterable[Breach], excused: Counter[str]) -> Iterator[Breach]:
    """All breaches except those that follow from acknowledged writes that were allowed to be lost."""
    since = min((window.struck_at for window in case.windows if window.limits.may_lose), default=NEVER)
    for breach in breaches:
        if breach.at >= since - LOST_SECONDS and breach.kind in _OF_LOST_WRITES:
            excused[f"{breach.kind}, acknowledged writes having been lost"] += 1
        else:
            yield breach


def _servers(case: Case, excused: Counter[str]) -> Iterator[Breach]:
    """Acknowledged rows that a standby lacked, and wrong answers of the API when there was no room."""
    windows = {window.id: window for window in case.windows}
    for each in case.replaced:
        window = windows[each.id]
        if window.limits.may_lose:
            excused["rows acknowledged before an asynchronous failover, kept"] += (
                each.acknowledged - each.lost
            )
            excused["rows acknowledged before an asynchronous failover, lost"] += each.lost
        elif each.lost or not each.acknowledged:
            detail = f"{each.lost} of {each.acknowledged} acknowledged rows are gone"
            yield Breach(kind="write lost", at=window.healed_at, job="all", detail=detail)
    for answered in case.answered:
        wrong = answered.answers.keys() - {"201", UNAVAILABLE}
        if wrong or UNAVAILABLE not in answered.answers:
            detail = f"answered {answered.answers}; {UNAVAILABLE} would be right"
            yield Breach(kind="answer", at=windows[answered.id].struck_at, job="api", detail=detail)
    for attacked in case.attacked:
        yield from _attacks(attacked, windows[attacked.id].struck_at, excused)


def _attacks(attacked: Attacked, at: float, excused: Counter[str]) -> Iterator[Breach]:
    """Wrong answers to a hostile tenant, and figures beyond its limits; the others are counted in ``excused``."""
    for attack, answers in attacked.answers.items():
        said = ", ".join(f"{answer} {count:,} times" for answer, count in sorted(answers.items()))
        if any(answer.isdigit() and answer >= "500" and answer != "503" for answer in answers):
            yield Breach(kind="answer", at=at, job="api", detail=f"to {attack} it answered {said}")
        else:
            excused[f"of the hostile tenant's {attack}: {said}"] += sum(answers.values())
    for what, (most, allowed) in attacked.limits.items():
        if most > allowed:
            detail = f"{most:,.0f} {what}, {allowed:,.0f} allowed"
            yield Breach(kind="quota", at=at, job="hostile", detail=detail)
        else:
            excused[f"{what} of the hostile tenant's, {allowed:,.0f} allowed"] += int(most)


def _processes(case: Case) -> Iterator[Breach]:
    """Processes that ended by themselves, and differences that the ledger's own audit found."""
    for death in case.deaths:
        detail = f"ended with {death.code}, and no fault had killed it"
        yield Breach(kind="died", at=death.at, job=death.process, detail=detail)
    for audit in case.audits:
        if not audit.passed:
            yield Breach(kind="audit", at=audit.at, job="all", detail=audit.says)
