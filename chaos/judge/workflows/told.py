"""A generation of a run as it is judged: since when each task and item might begin, and when all of it is due."""

from functools import cached_property
from math import ceil

from chaos.history import RunSeen
from chaos.judge.case import Case
from chaos.judge.limits import FINISH_SECONDS, TOLERANCE_SECONDS
from chaos.judge.verdict import Breach
from chaos.judge.workflows.graphs import FAILURES, Fate, before, longest, needs_all
from chaos.judge.workflows.outcome import LONG_SECONDS, Outcome
from chaos.judge.workflows.runs import NEVER, Run, parts


class Told(Outcome):
    """When the parts of a generation might begin and had to end."""

    @cached_property
    def _ready(self) -> dict[str, float]:
        return {}

    def ready_at(self, task: str) -> float:
        """Since when a task may have begun, by the ends of the tasks before it; ``NEVER``: it may not have."""
        if task not in self._ready:
            met = [self.met_at(one, on) for one, on in before(self.workflow, task)]
            self._ready[task] = max(
                self.begins_at, (max if needs_all(self.workflow, task) else min)(met, default=0.0)
            )
        return self._ready[task]

    def item_ready_at(self, unit: str) -> float:
        """The same for an item: when it was its turn, because enough items before it had ended."""
        task, _ = parts(unit)
        behind = self.units[task].index(unit) - self.workflow.tasks[task]["parallel"]
        if behind < 0:
            return self.ready_at(task)
        ends = sorted(settled[0].ended_at for each in self.units[task] if (settled := self.settled(each)))
        return max(self.ready_at(task), ends[behind] if behind < len(ends) else NEVER)

    def unit_ready_at(self, unit: str) -> float:
        return self.ready_at(unit) if parts(unit)[1] is None else self.item_ready_at(unit)

    def met_at(self, one: str, on: str) -> float:
        """Since when the end of a task, or its being skipped, may have met its edge."""
        end = self.ends.get(one, "")
        if one in self.kept:
            return self.begins_at if _meets(end, on) else NEVER
        if self.fates[one] in (Fate.UPSTREAM, Fate.HALTED) or end == "skipped":
            earlier = [self.met_at(each, "on_finished") for each, _ in before(self.workflow, one)]
            # One edge that cannot be met any more is enough, unless any of them would do.
            decided = (min if needs_all(self.workflow, one) else max)(earlier, default=self.begins_at)
            return decided if on == "on_finished" else NEVER
        if self.wait(one):
            return self.wait_over_at(one) if _meets(end, on) else NEVER
        if self.is_inner(one):
            inner = self.inner[one][-1:]
            return max([self.ready_at(one), *(each.over_at for each in inner)]) if _meets(end, on) else NEVER
        if self.is_map(one):
            over = [self._item_over_at(unit) for unit in self.units[one]]
            return max([self.ready_at(one), *over]) if _meets(end, on) else NEVER
        settled = self.settled(one)
        if on != "on_finished":
            settled = [delivery for delivery in settled if delivery.is_good == (on == "on_success")]
        if not settled and self.cancel and end == "cancelled" and _meets(end, on):
            return self.cancel.requested_at
        return settled[0].ended_at if settled else NEVER

    def _item_over_at(self, unit: str) -> float:
        if settled := self.settled(unit):
            return settled[0].ended_at
        return self.begins_at if self.entry(unit).get("state") == "skipped" else NEVER

    @property
    def over_at(self) -> float:
        """The earliest moment at which it may have ended."""
        if self.cancel and self.end in ("cancelled", ""):
            return self.cancel.requested_at
        return max([self.begins_at, *(self.met_at(task, "on_finished") for task in self.workflow.tasks)])

    def wait_over_at(self, task: str) -> float:
        """Since when a wait may have been over, in the way in which it ended."""
        wait, since, end = self.wait(task), self.ready_at(task), self.ends.get(task, "")
        if end == "cancelled":
            cancels = [*self.generation.asked("cancel"), *([self.cancel] if self.cancel else [])]
            calls = self.generation.asked("refuse", task) + cancels
        elif end == "succeeded" and wait["type"] != "time":
            calls = self.answers(task)
        elif "until" in wait:
            return max(since, self.case.reached(self.run.until))
        else:
            return self._later(since, float(wait.get("seconds", wait.get("timeout_seconds", NEVER))))
        return max(since, min((call.requested_at for call in calls), default=NEVER))

    @property
    def is_due(self) -> bool:
        """Whether all of it should have been over when the log was read, or before it was retried."""
        if self.is_past:
            return True
        if self.is_unanswered:
            return False
        calls = [*self.generation.calls, *([self.generation.retry] if self.generation.retry else [])]
        begun = max(
            [
                self.begins_at,
                *(call.acknowledged_at or call.requested_at for call in calls),
                *([self.cancel.requested_at] if self.cancel else []),
                *([self.stops_at] if self.stops_at < NEVER and not self.end else []),
                *([self.seen.created_at] if self.seen and self.seen.created_at else []),
                *(found[0].at for found in self.deliveries.values() if found and self.workflow.schedule),
            ]
        )
        return begun + self.longest <= self.case.closed_at - TOLERANCE_SECONDS

    @property
    def is_past(self) -> bool:
        """Whether it, or its outer run, was retried after it."""
        return not self.generation.is_last or bool(self.outer and self.outer[0].is_past)

    @property
    def longest(self) -> float:
        """Seconds that it may take."""
        return longest(self.workflow, {task: self._seconds(task) for task in self.workflow.tasks})

    @property
    def is_over(self) -> bool:
        """Whether it had ended when the log was read."""
        over = self.seen and self.seen.finished_at
        return over <= self.case.closed_at if over else not self.seen and len(self.ends) == len(self.fates)

    @property
    def is_unanswered(self) -> bool:
        """Whether it goes on because its caller never answered."""
        return any(
            self._is_unanswered(task) or any(each.is_unanswered for each in self.inner.get(task, ()))
            for task in self.workflow.tasks
        )

    def _is_unanswered(self, task: str) -> bool:
        wait = self.wait(task)
        is_asked = bool(wait) and wait["type"] != "time"
        if not is_asked or task in self.ends or self.cancel or self.stops_at < NEVER:
            return False
        said = [*self.answers(task), *self.generation.asked("refuse", task)]
        return not said and float(wait.get("timeout_seconds", NEVER)) >= LONG_SECONDS

    def _seconds(self, task: str) -> float:
        """How long a task takes, or a map whose items go one after the other as far as they must."""
        if wait := self.wait(task):
            if "until" in wait:
                return max(0.0, self.case.reached(self.run.until) - self.begins_at)
            seconds = float(wait.get("seconds", wait.get("timeout_seconds", 0.0)))
            return seconds if seconds < LONG_SECONDS else 0.0
        if name := self.workflow.tasks[task].get("inner"):
            [made] = [
                each
                for each in self.case.workflows.values()
                if (each.tenant, each.name) == (self.workflow.tenant, name)
            ]
            unbegun = Run(id="", workflow=made, number=0, scheduled_for=self.run.scheduled_for)
            return FINISH_SECONDS + Told(self.case, unbegun, unbegun.generations[0]).longest
        units = self.units[task]
        work = max((self.case.work_seconds(self.jobs[unit]) for unit in units), default=0.0)
        return work * (ceil(len(units) / self.workflow.tasks[task]["parallel"]) if self.is_map(task) else 1)

    @property
    def is_troubled(self) -> bool:
        """Whether a fault may have cost one of its tasks an attempt."""
        begun = self.begins_at
        ends = [d.ended_at for each in self.deliveries.values() for d in each if d.ended_at < NEVER]
        over = [self.seen.finished_at] if self.seen and self.seen.finished_at else []
        until = max([begun, *ends, *over], default=begun)
        return bool(self.case.faulty(self.workflow.tenant, begun, until))

    def breach(self, kind: str, at: float, unit: str, detail: str) -> Breach:
        again = f", generation {self.generation.number}" if self.generation.number else ""
        return Breach(
            kind=kind,
            at=at,
            job=f"{self.workflow.name}/{unit}",
            detail=f"{detail} (run {self.run.id}{again})",
        )

    def must(self, task: str) -> list[str]:
        """The units of a task that had to be executed. If a task failed and the workflow halts, a map's first items."""
        units = self.units[task]
        if self.fates[task] != Fate.START:
            return []
        if not self.is_map(task) or self.workflow.on_failure != "halt":
            return units
        failed = any(end in FAILURES for end in self.ends.values())
        return units[: self.workflow.tasks[task]["parallel"]] if failed else units

    def required(self) -> int:
        """How many of its tasks and items had to be executed by the end."""
        return sum(len(self.must(task)) for task in self.fates) if self.is_due and not self.cancel else 0


def _meets(end: str, on: str) -> bool:
    if on == "on_finished":
        return bool(end)
    return end == "succeeded" if on == "on_success" else end in FAILURES


def told(case: Case) -> list[Told]:
    """Each generation of each run, if it is known whether the run was retried. Runs of schedules that were under way
    when the log was read are left out: their executions are not in it.
    """
    found: list[Told] = []
    for run in case.runs.values():
        if run.is_uncertain or run.outer:  # an inner run is told with the start that began it
            continue
        earlier = None
        for generation in run.generations:
            earlier = Told(case, run, generation, before=earlier)
            found += [earlier, *earlier.within()]
    return [each for each in found if not each.workflow.schedule or each.is_due or each.is_over]


def under_way(case: Case) -> bool:
    """Whether a run that a caller asked for goes on: its executions will not be in a log that is read now."""
    return any(
        not each.is_due and not each.is_unanswered for each in told(case) if not each.workflow.schedule
    )


def state_of(seen: RunSeen | None, unit: str) -> str:
    """The state of a task or an item by the ledger, in words."""
    if seen is None:
        return "nothing"
    task, nth = parts(unit)
    entry = seen.tasks[task]
    items = entry.get("items", [])
    if nth is not None:
        entry = items[nth] if nth < len(items) else {"state": "no item", "reason": ""}
    return f"{entry['state']} {entry['reason']}".strip()
