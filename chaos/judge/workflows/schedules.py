"""Runs that schedules begin: one for each instant, unless its overlap policy drops it, and never two at once."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from chaos.history import JobMade, WorkflowMade
from chaos.judge.case import Case
from chaos.judge.expected import named
from chaos.judge.limits import FINISH_SECONDS, TOLERANCE_SECONDS
from chaos.judge.verdict import Breach
from chaos.judge.workflows.runs import NEVER, Run

#: Until this long after its instant a fault may have made a run late, or dropped it.
_LIFE_SECONDS = 120.0


def kept(case: Case, excused: Counter[str]) -> Iterator[Breach]:
    """Everything that is wrong with the runs that schedules began, and with their times."""
    for workflow in case.workflows.values():
        if workflow.schedule:
            yield from _Kept(case, workflow).breaches(excused)


class _Kept:
    def __init__(self, case: Case, workflow: WorkflowMade) -> None:
        self.case, self.workflow = case, workflow
        self.runs = [run for run in case.runs.values() if run.workflow is workflow]
        #: When each was first and last seen to be at work, and its instant; a run that goes on has no end.
        self.lives = sorted((*self._life(run), case.reached(run.scheduled_for), run.id) for run in self.runs)
        #: Later runs need not have begun, or ended.
        work = sum(case.work_seconds(run.job(task)) for run in self.runs[:1] for task in workflow.tasks)
        self.horizon = case.closed_at - TOLERANCE_SECONDS - FINISH_SECONDS - work

    def _life(self, run: Run) -> tuple[float, float]:
        found = [each for unit in self.case.task_runs.get(run.id, {}).values() for each in unit]
        seen, at = run.seen[-1] if run.seen else None, self.case.reached(run.scheduled_for)
        begun = min([each.at for each in found], default=(seen and seen.created_at) or at)
        if seen and seen.finished_at:
            return begun, max([seen.finished_at, *(each.ended_at for each in found if each.ended_at < NEVER)])
        goes_on = seen is not None or not self._has_ended(run)
        return begun, NEVER if goes_on else max(each.ended_at for each in found)

    def _has_ended(self, run: Run) -> bool:
        """Whether the run has ended, by the receiver's log."""
        units = self.case.task_runs.get(run.id, {})
        return all(
            any(each.settles(run.job(task)) for each in units.get(task, [])) for task in self.workflow.tasks
        )

    def breaches(self, excused: Counter[str]) -> Iterator[Breach]:
        job = JobMade(
            at=self.workflow.at,
            job_id=self.workflow.workflow_id,
            tenant=self.workflow.tenant,
            name=self.workflow.name,
            schedule=self.workflow.schedule,
            created_at=self.workflow.created_at or self.runs[0].scheduled_for,
        )
        # Schedules go on while the ledger is read.
        until = max([self.case.closed_at, *(seen.at for run in self.runs for seen in run.seen)])
        instants = named(job, until=until + max([0.0, *(step.clock_seconds for step in self.case.steps)]))
        begun: dict[float, list[str]] = defaultdict(list)
        for run in self.runs:
            begun[run.scheduled_for.timestamp()].append(run.id)
        for at, ids in begun.items():
            if at not in {instant.timestamp() for instant in instants}:
                yield self._breach("phantom", at, f"its schedule names no such instant (run {ids[0]})")
            if len(ids) > 1:
                yield self._breach("doubled firing", at, f"{len(ids)} runs: {', '.join(sorted(ids))}")
        for instant in instants:
            at = self.case.reached(instant)
            if instant.timestamp() in begun or at > self.horizon:
                continue
            if excuse := self._excuse(at):
                excused[excuse] += 1
            else:
                yield self._breach("lost", at, f"no run of {instant:%H:%M:%S} began")
        yield from self._side_by_side(excused)

    def _excuse(self, at: float) -> str:
        """Why no run of that instant need have begun; empty: one had to."""
        alive = any(instant < at <= over + FINISH_SECONDS for _, over, instant, _ in self.lives)
        if alive and self.workflow.overlap_policy == "skip":
            return "dropped by its overlap policy"
        if self.workflow.overlap_policy == "skip" and self._troubled(at, at + _LIFE_SECONDS):
            return "dropped by its overlap policy, in a fault"
        last_over = max((over for _, over, _, _ in self.lives), default=0.0)
        if self.workflow.overlap_policy == "queue" and last_over >= self.case.closed_at - TOLERANCE_SECONDS:
            return "in line behind earlier ones when the log was read"
        return ""

    def _troubled(self, since: float, until: float) -> bool:
        return bool(self.case.faulty(self.workflow.tenant, since, until, after=0.0)) or bool(
            self.case.faulty(self.workflow.tenant, since, since)
        )

    def _side_by_side(self, excused: Counter[str]) -> Iterator[Breach]:
        for (_, over, _, one), (begun, _, _, other) in pairwise(self.lives):
            if begun >= over:
                continue
            if any(
                window.limits.may_outlive for window in self.case.faulty(self.workflow.tenant, begun, begun)
            ):
                excused["overlap with a worker that had been cut off"] += 1
            else:
                detail = f"run {other} began beside run {one}, which went on"
                yield self._breach("overlap", begun, detail)

    def _breach(self, kind: str, at: float, detail: str) -> Breach:
        return Breach(kind=kind, at=at, job=self.workflow.name, detail=detail)
