"""Why a trigger waits: every gate between it and running, each open or shut, from one read of the database."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobs.actions.jobs import parse_id
from jobs.actions.schedules import instant_text
from jobs.core.errors import NotFound
from jobs.core.states import ENDED, TriggerState
from jobs.explain import gates, progress, siblings
from jobs.explain.gate import Gate, counted, moment
from jobs.explain.gates import Available
from jobs.limits import shared_buckets
from jobs.store.insight import explain as store
from tenants.models import Tenant


def _alone(judge: Callable[[Any], Gate]) -> Callable[[Any, Available], Gate]:
    """A gate that asks no rate limit."""
    return lambda fact, _: judge(fact)


#: In the order in which a trigger meets them.
GATES: dict[str, Callable[[Any, Available], Gate]] = {
    "due": _alone(gates.due),
    "misfire": _alone(siblings.misfire),
    "job": _alone(gates.job),
    "tenant": _alone(gates.tenant),
    "leader": _alone(gates.leader),
    "tenant_cap": _alone(gates.tenant_cap),
    "tenant_rate": gates.tenant_rate,
    "target_rate": gates.target_rate,
    "overlap": _alone(siblings.overlap),
    "concurrency_key": _alone(siblings.concurrency_key),
    "type_cap": _alone(gates.type_cap),
    "queue_window": _alone(gates.queue_window),
    "broker": _alone(progress.broker),
    "worker": _alone(progress.worker),
    "running": _alone(progress.running),
    "back_off": _alone(progress.back_off),
}
GATE_NAMES = tuple(GATES)
#: What still counts once a trigger is queued (claim looks at job and tenant again), and once it runs.
_COUNTS = {
    TriggerState.QUEUED: {"job", "tenant", "broker", "worker", "running", "back_off"},
    TriggerState.RUNNING: {"running", "back_off"},
}
#: With every gate open, the leader takes a trigger within a turn; longer than this, something else is amiss.
_LONG = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A trigger as it stood at one moment. ``gates`` is empty once it has ended."""

    fact: Any
    gates: tuple[Gate, ...]

    @property
    def shut(self) -> list[Gate]:
        return [gate for gate in self.gates if not gate.open]

    @property
    def ended(self) -> bool:
        return self.fact.state in ENDED

    @property
    def summary(self) -> str:
        """The answer in a sentence or two."""
        if self.ended:
            return progress.ending(self.fact)
        if self.shut:
            return " ".join(gate.detail for gate in self.shut)
        before = self.fact.ahead
        turn = f", after {counted(before, 'trigger', most=store.MOST_AHEAD)} due before it" if before else ""
        late = (
            " It should have by now: see whether /readyz names the broker as away." if self._overdue else ""
        )
        return f"Nothing stands in its way: the leader's next turn takes it{turn}.{late}"

    @property
    def _overdue(self) -> bool:
        return bool(not self.fact.ahead and self.fact.due_at + _LONG < self.fact.now)

    def representation(self) -> dict[str, Any]:
        """As the API shows it, JSON types only."""
        return {
            "trigger_id": str(self.fact.id),
            "job_id": str(self.fact.job_id),
            "state": self.fact.state,
            "reason": self.fact.reason,
            "at": instant_text(self.fact.now),
            "summary": self.summary,
            "shut": [gate.name for gate in self.shut],
            "ahead": 0 if self.ended else self.fact.ahead,
            "gates": [_shown(gate) for gate in self.gates],
        }


def explain_trigger(
    *, tenant: Tenant, trigger_id: UUID | str, available: Available | None = None
) -> Explanation:
    """Explain one trigger. One statement, and a question to Redis for each rate limit it is under.

    ``available`` answers for the rate limits in place of Redis. Raises ``NotFound``.
    """
    fact = store.trigger_facts(trigger_id=parse_id(trigger_id, "trigger"), tenant_id=tenant.id)
    if fact is None:
        raise NotFound("There is no such trigger.")
    if fact.state in ENDED:
        return Explanation(fact, ())
    ask = available or shared_buckets().available
    return Explanation(fact, tuple(_judge(name, fact, ask) for name in GATES))


def _judge(name: str, fact: Any, available: Available) -> Gate:
    if name in _COUNTS.get(TriggerState(fact.state), GATES):
        return GATES[name](fact, available)
    when = f", at {moment(fact.queued_at)}" if fact.queued_at else ""
    return Gate(name, True, f"Passed when it was dispatched{when}.")


def _shown(gate: Gate) -> dict[str, Any]:
    return {
        "gate": gate.name,
        "open": gate.open,
        "detail": gate.detail,
        "opens_at": instant_text(gate.opens_at),
        "limit": gate.limit,
        "used": gate.used,
        "blockers": [str(trigger_id) for trigger_id in gate.blockers],
    }
