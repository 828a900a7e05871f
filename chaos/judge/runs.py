"""Runs of workflows, as the calls that asked for them and the ledger tell of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from chaos.history import JobMade, RunAsked, RunSeen, WorkflowMade


@dataclass(kw_only=True)
class Run:
    """One run. ``requested_at`` is 0 where no call asked for it; ``seen`` is in the order of the readings."""

    id: str
    workflow: WorkflowMade
    number: int
    scheduled_for: datetime
    requested_at: float = 0.0
    acknowledged: bool = False
    seen: list[RunSeen] = field(default_factory=list)

    @property
    def final(self) -> RunSeen | None:
        return self.seen[-1] if self.seen else None

    def job(self, task: str, job_id: str = "") -> JobMade:
        """What the other checks know a job by."""
        made = self.workflow.tasks[task]
        return JobMade(
            at=self.workflow.at,
            job_id=job_id,
            tenant=self.workflow.tenant,
            name=f"{self.workflow.name}/{task}",
            schedule={"type": "task"},
            created_at=self.scheduled_for,
            target=made["target"],
            seconds=made["seconds"],
            failures=made["failures"],
            max_concurrent=1_000_000,
            delivery=made["delivery"],
            max_attempts=made["max_attempts"],
        )


def runs_of(
    workflows: dict[str, WorkflowMade], asked: Iterable[RunAsked], seen: Iterable[RunSeen]
) -> dict[str, Run]:
    """By id, those that were acknowledged and those that the ledger has."""
    calls = {(call.workflow_id, call.number): call for call in asked}
    runs: dict[str, Run] = {}
    for call in calls.values():
        if call.run_id and call.scheduled_for:
            runs[call.run_id] = Run(
                id=call.run_id,
                workflow=workflows[call.workflow_id],
                number=call.number,
                scheduled_for=call.scheduled_for,
                requested_at=call.requested_at,
                acknowledged=True,
            )
    for entry in sorted(seen, key=lambda entry: entry.reading):
        known = calls.get((entry.workflow_id, entry.number))
        run = runs.setdefault(
            entry.run_id,
            Run(
                id=entry.run_id,
                workflow=workflows[entry.workflow_id],
                number=entry.number,
                scheduled_for=entry.scheduled_for,
                requested_at=known.requested_at if known else 0.0,
            ),
        )
        run.seen.append(entry)
    return runs
