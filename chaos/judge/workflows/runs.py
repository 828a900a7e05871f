"""Runs of workflows, as shown by the calls that asked for them, the calls that steered them, and the ledger."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from chaos.history import JobMade, RunAsked, RunSeen, Steered, WorkflowMade

NEVER = float("inf")


@dataclass(kw_only=True)
class Generation:
    """A run from its beginning, or from a ``retry``, up to the next one; ``calls`` and ``seen`` are those in it."""

    number: int
    retry: Steered | None
    ends_before: float
    calls: list[Steered] = field(default_factory=list)
    seen: list[RunSeen] = field(default_factory=list)

    @property
    def final(self) -> RunSeen | None:
        return self.seen[-1] if self.seen else None

    @property
    def is_last(self) -> bool:
        return self.ends_before == NEVER

    def asked(self, verb: str, task: str = "") -> list[Steered]:
        """Calls of that kind, by their time; several of them may be repetitions of one call."""
        return [call for call in self.calls if (call.verb, call.task) == (verb, task)]


@dataclass(kw_only=True)
class Run:
    """One run. ``requested_at`` is 0 where no call asked for it; ``seen`` is in the order of the readings. ``outer``:
    for an inner run, the outer run and the task that it is.
    """

    id: str
    workflow: WorkflowMade
    number: int
    scheduled_for: datetime
    requested_at: float = 0.0
    acknowledged: bool = False
    input: dict[str, Any] = field(default_factory=dict)
    steered: list[Steered] = field(default_factory=list)
    seen: list[RunSeen] = field(default_factory=list)
    outer: tuple[str, str] | None = None

    @cached_property
    def generations(self) -> list[Generation]:
        """The first one, and one for each retry: only the run's own caller retries it."""
        retries = [call for call in self.steered if call.verb == "retry"]
        ends = [*(call.requested_at for call in retries), NEVER]
        found = [
            Generation(number=number, retry=retry, ends_before=end)
            for number, (retry, end) in enumerate(zip([None, *retries], ends, strict=True))
        ]
        for call in self.steered:
            if call.verb != "retry":
                found[self.generation_at(call.requested_at)].calls.append(call)
        for seen in self.seen:
            found[self.generation_at(seen.at)].seen.append(seen)
        return found

    def generation_at(self, at: float) -> int:
        """The number of the generation that had been asked for by then."""
        return sum(call.verb == "retry" and call.requested_at <= at for call in self.steered)

    @property
    def until(self) -> datetime:
        """The instant for which one of its tasks waits."""
        return datetime.fromisoformat(self.input["until"])

    @property
    def is_uncertain(self) -> bool:
        """Whether it may have been retried or not."""
        return any(call.verb == "retry" and call.acknowledged_at is None for call in self.steered)

    def job(self, unit: str, job_id: str = "") -> JobMade:
        """A task, or an item of a map, as the job that the other checks take."""
        task, nth = parts(unit)
        made = self.workflow.tasks[task]
        only = made.get("only") or []
        spared = nth is not None and bool(only) and nth not in only
        return JobMade(
            at=self.workflow.at,
            job_id=job_id,
            tenant=self.workflow.tenant,
            name=f"{self.workflow.name}/{task}",
            schedule={"type": "task"},
            created_at=self.scheduled_for,
            target="ok" if spared else made["target"],
            seconds=made["seconds"],
            failures=0 if spared else made["failures"],
            max_concurrent=1_000_000,
            delivery=made["delivery"],
            max_attempts=made["max_attempts"],
        )


def parts(unit: str) -> tuple[str, int | None]:
    """The task, and for an item its place in the list."""
    task, _, nth = unit.partition(":")
    return task, int(nth) if nth else None


def runs_of(
    workflows: dict[str, WorkflowMade],
    asked: Iterable[RunAsked],
    seen: Iterable[RunSeen],
    *,
    steered: Iterable[Steered] = (),
    begun: Iterable[tuple[str, str, int, datetime]] = (),
    by_themselves: Collection[str] = (),
) -> dict[str, Run]:
    """By id, the runs that were acknowledged, those that the ledger has, and those that no call asks for but that have
    an execution. ``begun``: from executions, the run's id, the workflow's name, the number and the instant.
    ``by_themselves``: the workflows whose runs schedules or other runs begin.
    """
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
                input=call.input,
            )
    unasked = {made.name: made for made in workflows.values() if made.workflow_id in by_themselves}
    for run_id, name, number, instant in begun:
        if name in unasked:
            run = Run(id=run_id, workflow=unasked[name], number=number, scheduled_for=instant)
            runs.setdefault(run_id, run)
    for entry in sorted(seen, key=lambda entry: (entry.reading, entry.at)):
        known = calls.get((entry.workflow_id, entry.number))
        run = runs.setdefault(
            entry.run_id,
            Run(
                id=entry.run_id,
                workflow=workflows[entry.workflow_id],
                number=entry.number,
                scheduled_for=entry.scheduled_for,
                requested_at=known.requested_at if known else 0.0,
                input=known.input if known else entry.input,
            ),
        )
        run.seen.append(entry)
    for deed in sorted(steered, key=lambda deed: deed.requested_at):
        if deed.run_id in runs:
            runs[deed.run_id].steered.append(deed)
    return runs
