"""A history, sorted for questions: deliveries joined, firings grouped, faults as stretches of time."""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property, partial

from chaos.history import (
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
    InnerRun,
    JobMade,
    Ledger,
    Probed,
    Range,
    Record,
    Replaced,
    RunAsked,
    RunSeen,
    Started,
    Steered,
    Struck,
    TenantMade,
    WorkflowMade,
)
from chaos.judge.arrivals import Arrival, Firing, joined, placed
from chaos.judge.expected import Stops, Walk, stopped, walk
from chaos.judge.limits import (
    FINISH_SECONDS,
    LATE_SECONDS,
    RESUME_SECONDS,
    SUDDEN_SECONDS,
    TOLERANCE_SECONDS,
)
from chaos.judge.windows import Episode, Window, windows_of
from chaos.judge.workflows.inner.placed import inner_names, place
from chaos.judge.workflows.runs import Run, runs_of


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
        deliveries = joined(started, of(Ended))
        self.workflows = {made.workflow_id: made for made in of(WorkflowMade)}
        self.inner_names = inner_names(self.workflows.values())
        self.asked: list[RunAsked] = of(RunAsked)
        self.brought = {each.delivery: each.values for each in of(Brought)}
        seen: list[RunSeen] = of(RunSeen)
        self.ledger_of_runs = bool(self.ledger) or any(each.reading for each in seen)
        self.windows = windows_of(of(Struck), of(Healed), until=self.closed_at)
        self.steps = [window for window in self.windows if window.clock_seconds]
        self.runs: dict[str, Run] = runs_of(
            self.workflows,
            self.asked,
            seen,
            steered=of(Steered),
            begun=self._begun(deliveries),
            by_themselves={
                made.workflow_id for made in self.workflows.values() if not self.is_asked_for(made)
            },
        )
        #: By inner run, the trigger and the number of the start that began it.
        self.starts = {each.run_id: (each.trigger_id, each.task_start) for each in of(InnerRun)}
        self.deliveries = placed(deliveries, self.runs)
        self.firings: dict[Firing, list[Arrival]] = defaultdict(list)
        #: By firing and generation: a retry of a run may begin a firing once more.
        self.rounds: dict[tuple[Firing, int], list[Arrival]] = defaultdict(list)
        self.task_runs: dict[str, dict[str, list[Arrival]]] = defaultdict(lambda: defaultdict(list))
        self._task_jobs: dict[tuple[str, str], JobMade] = {}
        for delivery in self.deliveries:
            self.firings[delivery.firing].append(delivery)
            self.rounds[delivery.firing, delivery.generation].append(delivery)
            self._note_task(delivery)
        self.inner_runs = place(self.runs, self.inner_names, self.began_at)
        last = max((entry.reading for entry in self.ledger), default=0)
        self.final = {
            (entry.job_id, entry.scheduled_for): entry for entry in self.ledger if entry.reading == last
        }
        self._lives: dict[str, list[tuple[float, float]]] = {}
        self._walks: dict[str, Walk] = {}
        self._due: dict[str, list[datetime]] = {}
        self._strikes: dict[str, list[tuple[float, float]]] = {}

    def is_asked_for(self, workflow: WorkflowMade) -> bool:
        """Whether callers begin its runs, and not its schedule or tasks of others."""
        return not workflow.schedule and (workflow.tenant, workflow.name) not in self.inner_names

    def _begun(self, deliveries: Iterable[Arrival]) -> Iterator[tuple[str, str, int, datetime]]:
        """Runs that have an execution in the log: the id, the name of the workflow, the number and the instant."""
        for delivery in deliveries:
            brought = self.brought.get(delivery.request.delivery, {})
            if delivery.task_run and "workflow" in brought:
                number, instant = brought.get("number", 0), delivery.request.scheduled_for
                yield delivery.task_run[0], brought["workflow"], number, instant

    def _note_task(self, delivery: Arrival) -> None:
        if delivery.task_run is None or delivery.task_run[0] not in self.runs:
            return
        run_id, unit = delivery.task_run
        self.task_runs[run_id][unit].append(delivery)
        place = delivery.request.job_id, unit
        if place not in self._task_jobs:
            self._task_jobs[place] = self.runs[run_id].job(unit, delivery.request.job_id)

    def job_of(self, delivery: Arrival) -> JobMade | None:
        """The job, or the task of a workflow as a job; None where none was acknowledged."""
        job_id = delivery.request.job_id
        unit = delivery.task_run[1] if delivery.task_run else ""
        return self.jobs.get(job_id) or self._task_jobs.get((job_id, unit))

    def reached(self, instant: datetime) -> float:
        """When the database's clock first came to that instant, in seconds since 1970 by the machine's clock."""
        at = instant.timestamp()
        usual = next((step.healed_at for step in self.steps if step.struck_at <= at < step.healed_at), at)
        ahead = [
            max(step.struck_at, at - step.clock_seconds)
            for step in self.steps
            if at - step.clock_seconds < step.healed_at
        ]
        return min([usual, *ahead])

    def began_at(self, run: Run) -> float:
        """When a run began by itself, by its instant. Where the database's clock may have shown that instant at another
        time too, by its first execution.
        """
        at = run.scheduled_for.timestamp()
        # An instant of a schedule is due once the clock has passed it, even by a step. Other runs begin at theirs.
        shown = self.reached(run.scheduled_for) if run.workflow.schedule else at
        if not any(step.struck_at <= at - step.clock_seconds <= step.healed_at for step in self.steps):
            return shown
        found = [delivery.at for each in self.task_runs[run.id].values() for delivery in each]
        return min(found, default=shown)

    def due_at(self, job: JobMade, instant: datetime, started_at: float) -> float:
        """When a firing that started then fell due: a run by hand no sooner than it was asked for, even if the clock
        was ahead.
        """
        asked = [
            c.requested_at for c in self.calls[job.job_id] if c.verb == "run" and c.scheduled_for == instant
        ]
        shown = self.reached(instant)
        if started_at - shown > LATE_SECONDS and self._put_back_after(shown) < LATE_SECONDS:
            # No beat can be asked to see an instant that the clock shows so shortly: it is due when it comes again.
            shown = max(shown, instant.timestamp())
        return max([shown, *asked])

    def _put_back_after(self, moment: float) -> float:
        """How long after that moment, in seconds, a clock that was ahead was put back."""
        ends = [
            step.healed_at
            for step in self.steps
            if step.clock_seconds > 0 and step.struck_at <= moment < step.healed_at
        ]
        return min(ends, default=math.inf) - moment

    def stepped(self, start: float, end: float) -> bool:
        """Whether the database's clock was set in that stretch, so that a wait by that clock was shorter or longer."""
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
        """Firings due later than this are not required: their attempts may still be under way."""
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
        """Whether a window, or an earlier one whose aftermath still lasts when it strikes, touches the tenant."""
        return any(
            not each.spares(tenant) and each.affects is not None
            for each in self.windows
            if each.struck_at <= window.struck_at <= each.healed_at + RESUME_SECONDS
        )

    def strikes(self, window: Window) -> list[tuple[float, float]]:
        """The stretches in which it could find a trigger in flight: mostly one, from the strike to the heal. Where the
        heal resets connections, that is another.
        """
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
            if window.resets:
                found.append((end - SUDDEN_SECONDS, end + SUDDEN_SECONDS))
            self._strikes[window.id] = found
        return self._strikes[window.id]

    def is_poison(self, delivery: Arrival) -> bool:
        """Whether its job kills its worker."""
        job = self.job_of(delivery)
        return job is not None and job.target == "poison"

    def lives(self, job_id: str) -> list[tuple[float, float]]:
        """For each firing of a job that reached the receiver: its instant (``reached``) and its last answer."""
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


def _last_moment(records: Sequence[Record]) -> float:
    return max((record.at for record in records if hasattr(record, "at")), default=0.0)
