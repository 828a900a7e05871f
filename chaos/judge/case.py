"""A history, sorted for questions: deliveries joined, firings grouped, faults as stretches of time."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from uuid import UUID

from chaos.history import (
    OF_RUN,
    Answered,
    Attacked,
    Audited,
    Began,
    Brought,
    Called,
    Closed,
    Died,
    Effect,
    Ended,
    Healed,
    JobMade,
    Ledger,
    Probed,
    Range,
    Record,
    Replaced,
    RunAsked,
    RunSeen,
    Started,
    Struck,
    TenantMade,
    WorkflowMade,
)
from chaos.judge.expected import Stops, Walk, stopped, walk
from chaos.judge.limits import (
    FINISH_SECONDS,
    LATE_SECONDS,
    OF_FAULT,
    OTHERS_LEADER_SECONDS,
    OTHERS_SECONDS,
    RESUME_SECONDS,
    SUDDEN_SECONDS,
    TOLERANCE_SECONDS,
    Limits,
)
from chaos.judge.runs import Run, runs_of

#: A job and an instant.
Firing = tuple[str, datetime]
NEVER = float("inf")


@dataclass(frozen=True)
class Arrival:
    """One request from its arrival to its answer; ``ended_at`` is infinite when the log has no end of it."""

    request: Started
    ended_at: float
    status: int
    sent: bool

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
    def by_schedule(self) -> bool:
        """Whether a schedule asked for it, and not a "run now", whose key has another form (DESIGN §5)."""
        return ":scheduled_for:" in self.request.key

    @property
    def task_run(self) -> tuple[str, str] | None:
        """The run and the task, if it is a task of a workflow."""
        if not self.request.key.startswith(OF_RUN):
            return None
        run_id, _, task = self.request.key.removeprefix(OF_RUN).partition(":")
        return run_id, task

    def settles(self, job: JobMade) -> bool:
        """Whether nothing is to follow: it was answered, and not in a way that asks for another attempt."""
        return self.sent and (self.status < 500 or self.request.attempt >= job.max_attempts)


@dataclass(frozen=True)
class Window:
    """One strike of a fault until it was healed, in seconds since 1970."""

    id: str
    number: int
    what: str
    struck_at: float
    healed_at: float
    affects: frozenset[str] | None = None
    leader: bool = False
    kills: bool = True
    clock_seconds: float = 0.0

    @property
    def limits(self) -> Limits:
        return OF_FAULT[self.number]

    def spares(self, tenant: str) -> bool:
        """Whether it touches nothing of the tenant's, and so excuses nothing."""
        return self.affects is not None and tenant not in self.affects

    @property
    def others_seconds(self) -> float:
        """How late a firing of a tenant that it spares may start."""
        return OTHERS_LEADER_SECONDS if self.leader else OTHERS_SECONDS

    def may_repeat(self, tenant: str) -> bool:
        """Whether it may have cut short what the tenant had in flight."""
        reaches = self.limits.ends_process or not self.spares(tenant)
        return self.limits.may_repeat and self.kills and reaches

    def touches(self, start: float, end: float, *, after: float = 0.0) -> bool:
        """Whether the stretch meets the window, prolonged by ``after`` seconds."""
        return start <= self.healed_at + after and end >= self.struck_at


@dataclass(frozen=True)
class Episode:
    """Strikes of one kind in a row; ``ends_at`` is when the next kind begins, or the log was read."""

    number: int
    windows: tuple[Window, ...]
    ends_at: float

    @property
    def struck_at(self) -> float:
        return self.windows[0].struck_at

    @property
    def healed_at(self) -> float:
        return max(window.healed_at for window in self.windows)


class Case:
    """Everything a check may ask of a history."""

    def __init__(self, records: Iterable[Record]) -> None:
        records = list(records)

        def of(kind: type) -> list:
            return [record for record in records if isinstance(record, kind)]

        self.began: Began | None = next(iter(of(Began)), None)
        self.tenants: list[TenantMade] = of(TenantMade)
        self.jobs: dict[str, JobMade] = {job.job_id: job for job in of(JobMade)}
        self.deaths: list[Died] = of(Died)
        self.audits: list[Audited] = of(Audited)
        self.replaced: list[Replaced] = of(Replaced)
        self.answered: list[Answered] = of(Answered)
        self.attacked: list[Attacked] = of(Attacked)
        self.probes: list[Probed] = of(Probed)
        self.ranges: list[Range] = of(Range)
        self.ledger: list[Ledger] = of(Ledger)
        self.effects = {(effect.job_id, effect.scheduled_for): effect.count for effect in of(Effect)}
        self.closed_at: float = max((record.at for record in of(Closed)), default=_last_moment(records))
        self.calls: dict[str, list[Called]] = defaultdict(list)
        for call in of(Called):
            self.calls[call.job_id].append(call)
        # The log goes on while it is read.
        started = [start for start in of(Started) if start.at <= self.closed_at]
        self.deliveries = _joined(started, of(Ended))
        self.firings: dict[Firing, list[Arrival]] = defaultdict(list)
        for delivery in self.deliveries:
            self.firings[delivery.firing].append(delivery)
        self.workflows = {made.workflow_id: made for made in of(WorkflowMade)}
        self.asked: list[RunAsked] = of(RunAsked)
        self.brought = {each.delivery: each.values for each in of(Brought)}
        seen: list[RunSeen] = of(RunSeen)
        self.ledger_of_runs = bool(seen or self.ledger)
        self.runs: dict[str, Run] = runs_of(self.workflows, self.asked, seen)
        self.task_runs: dict[tuple[str, str], list[Arrival]] = defaultdict(list)
        self._task_jobs: dict[str, JobMade] = {}
        for delivery in self.deliveries:
            self._note_task(delivery)
        self.windows = _windows(of(Struck), of(Healed), until=self.closed_at)
        self.steps = [window for window in self.windows if window.clock_seconds]
        last = max((entry.reading for entry in self.ledger), default=0)
        self.final = {
            (entry.job_id, entry.scheduled_for): entry for entry in self.ledger if entry.reading == last
        }
        self._lives: dict[str, list[tuple[float, float]]] = {}
        self._walks: dict[str, Walk] = {}
        self._due: dict[str, list[datetime]] = {}
        self._strikes: dict[str, list[tuple[float, float]]] = {}

    def _note_task(self, delivery: Arrival) -> None:
        if delivery.task_run is None or delivery.task_run[0] not in self.runs:
            return
        run_id, task = delivery.task_run
        self.task_runs[run_id, task].append(delivery)
        job_id = delivery.request.job_id
        if job_id not in self._task_jobs:
            self._task_jobs[job_id] = self.runs[run_id].job(task, job_id)

    def job_of(self, delivery: Arrival) -> JobMade | None:
        """The job, or the task of a workflow as one; None where none was acknowledged."""
        job_id = delivery.request.job_id
        return self.jobs.get(job_id) or self._task_jobs.get(job_id)

    def reached(self, instant: datetime) -> float:
        """When the database's clock came to that instant first, in seconds since 1970 by the machine's."""
        at = instant.timestamp()
        usual = next((step.healed_at for step in self.steps if step.struck_at <= at < step.healed_at), at)
        ahead = [
            max(step.struck_at, at - step.clock_seconds)
            for step in self.steps
            if at - step.clock_seconds < step.healed_at
        ]
        return min([usual, *ahead])

    def due_at(self, job: JobMade, instant: datetime) -> float:
        """When that firing fell due: a run by hand no sooner than it was asked for, whatever the clock had been."""
        asked = [
            c.requested_at for c in self.calls[job.job_id] if c.verb == "run" and c.scheduled_for == instant
        ]
        return max([self.reached(instant), *asked])

    def stepped(self, start: float, end: float) -> bool:
        """Whether the database's clock was set in that stretch, so that a wait of its own was shorter or longer."""
        return any(
            start <= moment <= end for step in self.steps for moment in (step.struck_at, step.healed_at)
        )

    def walk(self, job: JobMade) -> Walk:
        if job.job_id not in self._walks:
            ahead = max([0.0, *(step.clock_seconds for step in self.steps)])
            self._walks[job.job_id] = walk(
                job, self.calls[job.job_id], until=self.closed_at + ahead, life=partial(self._life, job)
            )
        return self._walks[job.job_id]

    def _life(self, job: JobMade, at: float, until: float) -> float:
        """How long a firing due at ``at`` may take until it is over, as far as can be said at ``until``; seconds."""
        late = [
            window.others_seconds if window.spares(job.tenant) else window.limits.late_seconds
            for window in self.windows
            if window.touches(at, until, after=window.limits.late_seconds)
        ]
        return max([LATE_SECONDS, *late]) + self.work_seconds(job)

    @staticmethod
    def work_seconds(job: JobMade) -> float:
        """How long the attempts of a firing take, and the back-offs between them."""
        attempts = job.max_attempts if job.target == "failing" else job.failures + 1
        return attempts * (job.seconds + FINISH_SECONDS) + (attempts - 1) * job.retry_seconds

    def stops(self, job: JobMade) -> Stops:
        return stopped(self.calls[job.job_id])

    def horizon(self, job: JobMade) -> float:
        """Firings due later than this are not required: their attempts may be under way yet."""
        return self.closed_at - TOLERANCE_SECONDS - self.work_seconds(job)

    def due(self, job: JobMade) -> list[datetime]:
        """Required instants that had come up to the horizon, ascending."""
        if job.job_id not in self._due:
            horizon = self.horizon(job)
            self._due[job.job_id] = sorted(
                at for at in self.walk(job).required if self.reached(at) <= horizon
            )
        return self._due[job.job_id]

    def faulty(self, tenant: str, start: float, end: float, *, after: float = RESUME_SECONDS) -> list[Window]:
        """Windows that meet the stretch, each with its aftermath, and touch the tenant."""
        return [
            window
            for window in self.windows
            if not window.spares(tenant) and window.touches(start, end, after=after)
        ]

    def affected(self, window: Window, tenant: str) -> bool:
        """Whether a window, or an earlier one whose aftermath lasts as it strikes, touches the tenant."""
        return any(
            not each.spares(tenant) and each.affects is not None
            for each in self.windows
            if each.struck_at <= window.struck_at <= each.healed_at + RESUME_SECONDS
        )

    def strikes(self, window: Window) -> list[tuple[float, float]]:
        """The stretches in which it could find something in flight: mostly it is one, from the strike to the heal."""
        if window.id not in self._strikes:
            begin, end = window.struck_at, window.healed_at
            if window.limits.by_jobs:
                found = [
                    (each.at, min(each.ended_at, each.at + SUDDEN_SECONDS) + SUDDEN_SECONDS)
                    for each in self.deliveries
                    if begin <= each.at <= end and self.is_poison(each)
                ]
            else:
                found = [(begin, min(end, begin + SUDDEN_SECONDS) if window.limits.sudden else end)]
            self._strikes[window.id] = found
        return self._strikes[window.id]

    def is_poison(self, delivery: Arrival) -> bool:
        """Whether its job kills its worker."""
        job = self.job_of(delivery)
        return job is not None and job.target == "poison"

    def lives(self, job_id: str) -> list[tuple[float, float]]:
        """Of each firing of a job that reached the receiver, from its instant (``reached``) to its last answer."""
        if job_id not in self._lives:
            self._lives[job_id] = sorted(
                (self.reached(at), max(delivery.ended_at for delivery in deliveries))
                for (job, at), deliveries in self.firings.items()
                if job == job_id
            )
        return self._lives[job_id]

    @cached_property
    def episodes(self) -> list[Episode]:
        """The windows grouped, in the order they struck."""
        runs: list[list[Window]] = []
        for window in self.windows:
            if runs and runs[-1][-1].number == window.number:
                runs[-1].append(window)
            else:
                runs.append([window])
        ends = [*(run[0].struck_at for run in runs[1:]), self.closed_at]
        return [Episode(run[0].number, tuple(run), next_at) for run, next_at in zip(runs, ends, strict=False)]

    def window_at(self, at: float) -> Window | None:
        """The strike that came last before that moment; None in the calm before the first."""
        index = bisect_right(self.windows, at, key=lambda window: window.struck_at)
        return self.windows[index - 1] if index else None

    def episode_at(self, at: float) -> Episode | None:
        """The episode that had begun last at that moment; None in the calm before the first."""
        index = bisect_right(self.episodes, at, key=lambda episode: episode.struck_at)
        return self.episodes[index - 1] if index else None


def _joined(started: Sequence[Started], ended: Sequence[Ended]) -> list[Arrival]:
    ends = {end.delivery: end for end in ended}
    deliveries = []
    for request in sorted(started, key=lambda request: (request.at, request.delivery)):
        end = ends.get(request.delivery)
        deliveries.append(
            Arrival(request, end.at, end.status, end.sent) if end else Arrival(request, NEVER, 0, False)
        )
    return deliveries


def _windows(struck: Sequence[Struck], healed: Sequence[Healed], *, until: float) -> list[Window]:
    ends = {heal.id: heal.at for heal in healed}
    return [
        Window(
            strike.id,
            strike.number,
            strike.what,
            strike.at,
            ends.get(strike.id, until),
            None if strike.affects is None else frozenset(strike.affects),
            strike.leader,
            strike.kills,
            strike.clock_seconds,
        )
        for strike in sorted(struck, key=lambda strike: strike.at)
    ]


def _last_moment(records: Sequence[Record]) -> float:
    return max((record.at for record in records if hasattr(record, "at")), default=0.0)
