"""Why a trigger is late though every gate is open now: the limit full in the last minute, and the time still left.

A slot that becomes free is given away within a turn, so a look mostly finds a little room. The counts since the minute
before tell more: how many firings started, and how many handlers they kept busy. An estimate, for people.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.conf import engine_settings
from jobs.core.errors import InvalidInput
from jobs.core.levers import lower_cap
from jobs.core.pull import shown_name
from jobs.explain.gate import counted, span
from jobs.handlers import registry
from jobs.store.insight import explain as explain_store

#: A limit used to this part was the bottleneck: the rest of it is in use between two looks.
_FULL = 0.9


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """``gate``: the gate whose limit was full; None: no limit of the tenant or of its job type was.
    ``starts_per_second``: the tenant's own starts of the job type. ``seconds_left``: until its turn at that pace; None
    where nothing tells.
    """

    gate: str | None
    detail: str
    starts_per_second: float
    seconds_left: float | None


def bottleneck(fact: Any) -> Bottleneck | None:
    """The limit that makes a late trigger wait; None when nothing of its tenant has started lately. One statement."""
    pace = explain_store.pace(tenant_id=fact.tenant_id, job_type=fact.job_type)
    if not pace.all_started:
        return None
    uses = [use for use in _uses(fact, pace) if use[1] >= _FULL]
    gate, _, cause = max(uses, key=lambda use: use[1]) if uses else (None, 0.0, "")
    if gate is None:
        cause = f"no limit of tenant {fact.tenant} was full in the last minute: workers and other tenants set the pace"
    starts = pace.started / pace.seconds
    left = fact.ahead / starts if starts and fact.ahead else None
    late = span(fact.now - fact.due_at)
    return Bottleneck(gate, f"It is {late} late: {cause}{_outlook(fact, starts, left)}.", starts, left)


def _uses(fact: Any, pace: Any) -> Iterator[tuple[str, float, str]]:
    """Each limit that counts: its gate, how far it was used, and the words for that."""
    cap, busy = fact.tenant_max_in_flight, pace.busy_seconds / pace.seconds
    if cap:
        used = max(fact.tenant_in_flight + 1 if fact.tenant_in_flight else 0, busy) / cap
        yield (
            "tenant_cap",
            used,
            f"tenant {fact.tenant}'s cap of {cap:,} in flight was full in the last minute",
        )
    if fact.rate_per_second:
        used = pace.all_started / pace.seconds / fact.rate_per_second
        rate = f"{fact.rate_per_second:g}"
        yield (
            "tenant_rate",
            used,
            f"tenant {fact.tenant} started the {rate} a second that its rate limit allows",
        )
    limit = lower_cap(_types_cap(fact.job_type), fact.operators_cap)
    name = shown_name(fact.job_type)
    if limit:
        used = (fact.type_in_flight + 1 if fact.type_in_flight else 0) / limit
        yield "type_cap", used, f"job type {name} was full with {limit:,} in flight"
    window = fact.queue_window or engine_settings().queue_window_initial
    used = (fact.type_queued + 1 if fact.type_queued else 0) / window
    yield "queue_window", used, f"the queue jobs.{name} held all that its workers may have ahead"


def _types_cap(job_type: str) -> int | None:
    try:
        return registry.get(job_type).max_in_flight
    except (
        InvalidInput
    ):  # a tenant's own type, which its row may cap; or one that nothing serves, which a gate tells
        return None


def _outlook(fact: Any, starts: float, left: float | None) -> str:
    name = shown_name(fact.job_type)
    if not starts:
        return f"; none of its {name} firings started"
    many = f"{starts:.1f}" if starts >= 0.05 else "fewer than 0.1"
    pace = f"; {many} of its {name} firings start a second"
    if left is None:
        return f"{pace}, and it is next"
    before = counted(fact.ahead, "trigger", most=explain_store.MAX_AHEAD)
    about = "at least" if fact.ahead == explain_store.MAX_AHEAD else "about"
    are = "is" if fact.ahead == 1 else "are"
    return f"{pace}, {before} {are} due before it: {about} {span(timedelta(seconds=left))}"
