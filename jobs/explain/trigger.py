"""Why a trigger waits: every gate between it and running, each passed or blocking.

The figures come from one read. Where the policies decide, dispatch's own decision is asked (``dispatch_decision``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from jobs.actions.jobs import parse_id
from jobs.core.errors import NotFound
from jobs.core.levers.targets import NO_LIMITS, Limits
from jobs.core.states import ENDED, TriggerState
from jobs.explain import gates, overlap, progress
from jobs.explain.bottleneck import Bottleneck, bottleneck
from jobs.explain.gate import Gate, counted, moment
from jobs.explain.gates import Available
from jobs.limits import shared_buckets
from jobs.shapes.explain import TriggerExplanation
from jobs.store.dispatch import targets
from jobs.store.insight import explain as explain_store
from tenants.models import Tenant


@dataclass(frozen=True)
class _Asked:
    """The facts that decide the gates. The rest is read when a gate first asks for it."""

    fact: Any
    available: Available

    @cached_property
    def dispatch_decision(self) -> explain_store.DispatchDecision:
        found = explain_store.dispatch_decision(trigger_id=self.fact.id, tenant_id=self.fact.tenant_id)
        if found is None:  # it was purged since its facts were read
            raise _no_such_trigger()
        return found

    @cached_property
    def target_limits(self) -> Limits:
        return targets.rules().of(self.fact.target) if self.fact.target else NO_LIMITS


_Decide = Callable[[_Asked], Gate]


def _alone(decide: Callable[[Any], Gate]) -> _Decide:
    return lambda asked: decide(asked.fact)


def _by_rate(decide: Callable[[Any, Available], Gate]) -> _Decide:
    return lambda asked: decide(asked.fact, asked.available)


def _by_dispatch(decide: Callable[[Any, explain_store.DispatchDecision], Gate]) -> _Decide:
    return lambda asked: decide(asked.fact, asked.dispatch_decision)


#: The gates, in the order in which a trigger meets them.
GATES: dict[str, _Decide] = {
    "due": _alone(gates.due),
    "misfire": _by_dispatch(overlap.misfire),
    "job": _alone(gates.job),
    "tenant": _alone(gates.tenant),
    "leader": _alone(gates.leader),
    "dispatch": _alone(gates.dispatch),
    "job_type": _alone(gates.job_type),
    "tenant_cap": _alone(gates.tenant_cap),
    "tenant_rate": _by_rate(gates.tenant_rate),
    "target": lambda asked: gates.target(asked.fact, asked.target_limits),
    "breaker": _alone(gates.breaker),
    "target_rate": lambda asked: gates.target_rate(asked.fact, asked.target_limits, asked.available),
    "overlap": _by_dispatch(overlap.overlap),
    "concurrency_key": _by_dispatch(overlap.concurrency_key),
    "type_cap": _alone(gates.type_cap),
    "queue_window": _alone(gates.queue_window),
    "broker": _alone(progress.broker),
    "worker": _alone(progress.worker),
    "running": _alone(progress.running),
    "back_off": _alone(progress.back_off),
}
#: Gates that still count once a trigger is queued (claim looks at some of them again), and once it runs.
_COUNTS = {
    TriggerState.QUEUED: {
        "job",
        "tenant",
        "dispatch",
        "job_type",
        "target",
        "breaker",
        "broker",
        "worker",
        "running",
        "back_off",
    },
    TriggerState.RUNNING: {"running", "back_off"},
}
#: With every gate passed, the leader takes a trigger within a turn. If it takes longer than this, something is wrong.
_LONG = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A trigger as it stood at one moment. ``gates`` is empty once it has ended.

    ``bottleneck``: the cause of the wait of a trigger that is late though no gate blocks it.
    """

    fact: Any
    gates: tuple[Gate, ...]
    bottleneck: Bottleneck | None = None

    @property
    def blocking(self) -> list[Gate]:
        return [gate for gate in self.gates if not gate.passed]

    @property
    def ended(self) -> bool:
        return self.fact.state in ENDED

    @property
    def summary(self) -> str:
        """The answer in a sentence or two."""
        if self.ended:
            return progress.ending(self.fact)
        if self.blocking:
            return " ".join(gate.detail for gate in self.blocking)
        if self.bottleneck is not None:
            return f"No gate blocks it at this moment. {self.bottleneck.detail}"
        before = self.fact.ahead
        turn = (
            f", after {counted(before, 'trigger', most=explain_store.MAX_AHEAD)} due before it"
            if before
            else ""
        )
        late = (
            " It should have by now: see whether /readyz names the broker as away." if self._overdue else ""
        )
        return f"No gate blocks it: the leader's next turn takes it{turn}.{late}"

    @property
    def _overdue(self) -> bool:
        return bool(not self.fact.ahead and self.fact.due_at + _LONG < self.fact.now)

    def representation(self) -> dict[str, Any]:
        """The explanation as the API shows it, JSON types only."""
        return TriggerExplanation.of(
            self.fact,
            summary=self.summary,
            blocking=[gate.name for gate in self.blocking],
            bottleneck=self.bottleneck,
            ahead=0 if self.ended else self.fact.ahead,
            gates=self.gates,
        )


def explain_trigger(
    *, tenant: Tenant, trigger_id: UUID | str, available: Available | None = None
) -> Explanation:
    """Explain one trigger. Seven statements at most, and a question to Redis for each rate limit it is under.

    ``available`` answers for the rate limits in place of Redis. Raises ``NotFound``.
    """
    fact = explain_store.trigger_facts(trigger_id=parse_id(trigger_id, "trigger"), tenant_id=tenant.id)
    if fact is None:
        raise _no_such_trigger()
    if fact.state in ENDED:
        return Explanation(fact, ())
    asked = _Asked(fact, available or shared_buckets().available)
    found = tuple(_gate(name, asked) for name in GATES)
    late = fact.due_at + _LONG < fact.now and all(gate.passed for gate in found)
    return Explanation(fact, found, bottleneck(fact) if late else None)


def _no_such_trigger() -> NotFound:
    return NotFound("There is no such trigger.")


def _gate(name: str, asked: _Asked) -> Gate:
    fact = asked.fact
    if name in _COUNTS.get(TriggerState(fact.state), GATES):
        return GATES[name](asked)
    when = f", at {moment(fact.queued_at)}" if fact.queued_at else ""
    return Gate(name, True, f"Passed when it was dispatched{when}.")
