"""Executions, as the receiver's log shows them: a request from its arrival to its answer."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from chaos.history import Ended, JobMade, Started
from chaos.history.workflows import OF_RUN
from chaos.judge.workflows.runs import NEVER, Run, parts

#: A job and an instant.
Firing = tuple[str, datetime]


@dataclass(frozen=True)
class Arrival:
    """One request from its arrival to its answer; ``ended_at`` is infinite when the log has no end of it.

    For a task of a run that was retried: ``generation`` is that of the run, and ``base`` the number of attempts that
    the generations before had made.
    """

    request: Started
    ended_at: float
    status: int
    sent: bool
    generation: int = 0
    base: int = 0

    @property
    def at(self) -> float:
        return self.request.at

    @property
    def claimed_at(self) -> float:
        """When a worker took it, by that worker's clock: an execution's id is a UUIDv7."""
        return (UUID(self.request.execution_id).int >> 80) / 1000

    @property
    def firing(self) -> Firing:
        return self.request.job_id, self.request.scheduled_for

    @property
    def attempt(self) -> int:
        """Which attempt of its generation, from 1."""
        return self.request.attempt - self.base

    @property
    def by_schedule(self) -> bool:
        """Whether a schedule asked for it, and not a "run now", whose key has another form (DESIGN §5)."""
        return ":scheduled_for:" in self.request.key

    @property
    def task_run(self) -> tuple[str, str] | None:
        """The run and the task (for an item of a map with a colon and its place), if it is of a workflow."""
        if not self.request.key.startswith(OF_RUN):
            return None
        run_id, _, unit = self.request.key.removeprefix(OF_RUN).partition(":")
        return run_id, unit

    def settles(self, job: JobMade) -> bool:
        """Whether no attempt must follow: it was answered, and not in a way that asks for another attempt."""
        return self.sent and (self.status < 500 or self.attempt >= job.max_attempts)

    @property
    def is_good(self) -> bool:
        """Whether its task could take the answer for its result."""
        return self.sent and self.status == 200


def joined(started: Sequence[Started], ended: Sequence[Ended]) -> list[Arrival]:
    """Each start with its end, by time."""
    ends = {end.delivery: end for end in ended}
    deliveries = []
    for request in sorted(started, key=lambda request: (request.at, request.delivery)):
        end = ends.get(request.delivery)
        deliveries.append(
            Arrival(request, end.at, end.status, end.sent) if end else Arrival(request, NEVER, 0, False)
        )
    return deliveries


def placed(deliveries: Sequence[Arrival], runs: Mapping[str, Run]) -> list[Arrival]:
    """The same by time, each in its generation: that of the moment, or an earlier one if its fence shows that it was
    claimed in that one.
    """
    known: dict[tuple[str, str], dict[int, list[Started]]] = defaultdict(lambda: defaultdict(list))
    found = []
    for delivery in deliveries:
        run = runs.get(delivery.task_run[0]) if delivery.task_run else None
        if delivery.task_run is None or run is None or len(run.generations) == 1:
            found.append(delivery)
            continue
        before, generation = known[delivery.task_run], run.generation_at(delivery.at)
        while any(
            delivery.request.fence <= each.fence for n in before if n < generation for each in before[n]
        ):
            generation -= 1
        base = max(
            [
                _attempts_seen(run, delivery.task_run[1], generation),
                *(each.attempt for n in before if n < generation for each in before[n]),
            ]
        )
        before[generation].append(delivery.request)
        found.append(replace(delivery, generation=generation, base=base))
    return found


def _attempts_seen(run: Run, unit: str, generation: int) -> int:
    """How many attempts the ledger had before a generation began; the receiver need not have seen all. The ledger has
    no such number for items.
    """
    task, nth = parts(unit)
    earlier = run.generations[generation - 1].final if generation else None
    if earlier is None or nth is not None or task not in earlier.tasks:
        return 0
    return int(earlier.tasks[task].get("attempts", 0))
