"""Ask explain about a trigger, and let dispatch answer the same question by its act."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from jobs.explain import Explanation, explain_trigger
from jobs.explain.gate import Gate
from jobs.handlers import registry
from jobs.limits import Admission, Bucket, tenant_bucket
from jobs.models import Trigger
from tests.factories import UNLIMITED, dispatch, state_of

Clock = Callable[[timedelta], None]


class Tokens:
    """Rate limits with the given tokens left in each bucket, for explain and for dispatch alike."""

    def __init__(self, **left: int) -> None:
        self.left = {name.replace("_", ":", 1): tokens for name, tokens in left.items()}

    def available(self, bucket: Bucket) -> int | None:
        return self.left.get(bucket.key, bucket.burst)

    def rooms(self, tenants: Iterable[Any]) -> dict[int, int]:
        buckets = {each.id: tenant_bucket(each.id, each.rate_per_second, each.rate_burst) for each in tenants}
        return {
            tenant_id: self.left.get(bucket.key, bucket.burst)
            for tenant_id, bucket in buckets.items()
            if bucket
        }

    def spend(self, counts: Mapping[int, int]) -> None:
        pass

    def admit(self, wanted: Mapping[str, tuple[int, float]]) -> dict[str, Admission]:
        found = {
            target: min(count, self.left.get(f"target:{target}", count))
            for target, (count, _) in wanted.items()
        }
        return {
            target: Admission(granted, [timedelta(seconds=1)] * (wanted[target][0] - granted))
            for target, granted in found.items()
        }


ALL_THERE = Tokens()


def explain(trigger: Trigger, tokens: Tokens = ALL_THERE) -> Explanation:
    return explain_trigger(tenant=trigger.tenant, trigger_id=trigger.id, available=tokens.available)


def blocking(trigger: Trigger, tokens: Tokens = ALL_THERE) -> list[str]:
    """The names of the gates that block the trigger."""
    return [gate.name for gate in explain(trigger, tokens).blocking]


def gate(trigger: Trigger, name: str, tokens: Tokens = ALL_THERE) -> Gate:
    return next(gate for gate in explain(trigger, tokens).gates if gate.name == name)


def is_dispatched(
    trigger: Trigger, *, rates: Any = UNLIMITED, types: Sequence[str] = (), **options: Any
) -> bool:
    """Whether the next turn of a beat queues the trigger."""
    caps = {kind.name: kind.max_in_flight for kind in registry.all_types() if kind.max_in_flight}
    named = types or [kind.name for kind in registry.all_types() if not kind.max_in_flight]
    dispatch(types=named, rates=rates, **caps, **options)
    return state_of(trigger)[0] == "queued"


def passed(trigger: Trigger) -> None:
    """Assert that nothing blocks the trigger any more, and that it is dispatched."""
    assert blocking(trigger) == []
    assert is_dispatched(trigger)
