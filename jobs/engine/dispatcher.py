"""Dispatch: queue the triggers that may go next, then publish them (DESIGN §6.3, §8).

``queued`` is committed first, then the message is sent. If the process is killed between the two, the row waits for
reap. When the broker refuses, the rows are handed back at once. Copies that reached the broker after all carry a spent
fence and do nothing.
"""

import logging
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from jobs.conf import engine_settings
from jobs.core.states import CANCEL_REASONS
from jobs.crash_points import crash_point
from jobs.engine.endings import tell_unstarted
from jobs.store import dispatch as dispatch_store
from jobs.store import execution
from jobs.store.dispatch import Queued
from jobs.store.execution import ClaimToken
from jobs.store.leases import Leadership
from jobs.telemetry import get_logger
from jobs.wakeups import wake_pull_workers

log = get_logger()

#: While no more triggers of a type than this are queued, each has a message of its own, so that all workers share them.
#: Beyond that, messages grow with the square of the number queued, up to the batch size, because each message costs its
#: worker three commits. The length of the queue counts, not the size of one dispatch: many small dispatches would fill
#: the queue with messages faster than workers take them. Where the handler is asynchronous, a worker runs the triggers
#: of one message at once, and none waits for another: all that is queued goes into about ``MESSAGES_AT_ONCE``, or into
#: ``MESSAGES_WHEN_BUSY`` while a turn of dispatch takes ``BUSY_SECONDS``, as it does where processors are full. If the
#: queue of such a type is full, more is due than its workers keep up with, so its messages are as large as allowed.
#: They are also as large as allowed while the broker is slow: then the broker, and not the handlers, bounds how many
#: messages a worker takes.
SINGLE_MESSAGES, MESSAGES_AT_ONCE, MESSAGES_WHEN_BUSY = 32, 8, 2
BUSY_SECONDS = 0.03
#: Of so many triggers in a row the more urgent ones get their messages first: the others wait for a few messages more,
#: whoever's triggers these are.
IN_A_ROW = 32


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """How one job type is served: its ``max_in_flight`` (None: unlimited), the most triggers a message takes, and
    whether a worker runs these at once.

    ``pull``: its workers ask for queued triggers; nothing is published. ``askers``: the tenants whose pull workers ask
    for queued triggers of a type that Celery workers serve too. ``unheard``: no Celery worker takes the type's
    messages. Then the triggers of ``askers`` are not published either: the broker would fill with messages of triggers
    that were done long ago (ADR 18). The triggers of other tenants then wait: no worker takes them, and they would fill
    the queue.
    """

    max_in_flight: int | None
    batch_size: int
    at_once: bool = False
    pull: bool = False
    askers: frozenset[int] = frozenset()
    unheard: bool = False

    def publishes(self, tenant_id: int) -> bool:
        """Whether queued triggers of the tenant get a message."""
        return not self.pull and not (self.unheard and tenant_id in self.askers)

    def bars(self, tenant_id: int) -> bool:
        """Whether no worker takes the tenant's triggers, though workers take those of other tenants."""
        return self.unheard and bool(self.askers) and tenant_id not in self.askers

    def is_asked_for(self, tenant_id: int) -> bool:
        """Whether pull workers may wait for queued triggers of the tenant."""
        return self.pull or tenant_id in self.askers


@dataclass(frozen=True, slots=True)
class Message:
    """One Celery message: a batch of one job type's triggers, each with its fence. All are ``urgent``, or none is."""

    job_type: str
    tokens: tuple[ClaimToken, ...]
    urgent: bool = False


class PublishError(Exception):
    """The broker did not take the messages, or it is not sure that it took all of them."""


def dispatch(
    *,
    memory: dispatch_store.Memory,
    leadership: Leadership,
    configs: Mapping[str, QueueConfig],
    window: dispatch_store.Window,
    limit: int,
    rates: dispatch_store.Rates,
    publish: Callable[[Sequence[Message]], None],
    slow: bool = False,
) -> dispatch_store.Dispatched:
    """Dispatch once, up to ``limit`` triggers. ``publish`` sends messages or raises ``PublishError``. ``slow``: the
    broker takes long for each message."""
    result = dispatch_store.dispatch(
        memory=memory,
        leadership=leadership,
        caps={name: config.max_in_flight for name, config in configs.items()},
        window=window,
        limit=limit,
        rates=rates,
        is_barred=lambda tenant_id, job_type: job_type in configs and configs[job_type].bars(tenant_id),
    )
    for trigger_id, reason in result.ended.items():
        verb = "cancel" if reason in CANCEL_REASONS else "skip"
        tell_unstarted(verb, trigger_id, reason=reason)
    if result.queued:
        _publish(result, configs, publish, slow=slow, busy=memory.turn_seconds > BUSY_SECONDS)
    return result


def _publish(
    result: dispatch_store.Dispatched,
    configs: Mapping[str, QueueConfig],
    publish: Callable[[Sequence[Message]], None],
    *,
    slow: bool,
    busy: bool,
) -> None:
    queued = [item for item in result.queued if configs[item.job_type].publishes(item.tenant_id)]
    crash_point("dispatch.after_commit", result.depths)
    if any(configs[item.job_type].is_asked_for(item.tenant_id) for item in result.queued):
        wake_pull_workers()
    try:
        if queued:
            full = configs if slow else result.full
            publish(messages(queued, configs, depths=result.depths, full=full, busy=busy))
        crash_point("dispatch.after_publish", result.depths)
    except PublishError as error:
        handed_back = execution.hand_back([ClaimToken(item.id, item.fence) for item in queued])
        log.warning("publish failed", error=str(error), triggers=len(queued), handed_back=handed_back)
        return
    for item in result.queued if log.isEnabledFor(logging.DEBUG) else ():
        log.debug("dispatch", trigger_id=str(item.id), fence=item.fence, job_type=item.job_type)


def messages(
    queued: Sequence[Queued],
    configs: Mapping[str, QueueConfig],
    *,
    depths: Mapping[str, int],
    full: Container[str],
    busy: bool = False,
) -> list[Message]:
    """Group queued triggers into messages: one trigger each when little is due, up to the type's batch size.

    ``depths``: how many triggers of each job type are queued, these included. ``full``: the job types whose queues have
    no room left. ``busy``: this turn took long. A suspect trigger travels alone, since it may end its process. A
    trigger that may be started only once also travels alone, unless all triggers of a message start together anyway: if
    it waited for its turn in a process that died, it would be lost without having been started.
    """
    kept = engine_settings().reserved_slots > 0
    at_once = MESSAGES_WHEN_BUSY if busy else MESSAGES_AT_ONCE

    def kind_of(item: Queued) -> tuple[str, bool]:
        """Its job type, and whether it is ordinary where workers keep slots for urgent work. Ordinary sorts last."""
        return item.job_type, kept and not item.urgent

    # Both sorts are stable: they keep the order of dispatch among equals.
    rows = [queued[start : start + IN_A_ROW] for start in range(0, len(queued), IN_A_ROW)]
    by_type = sorted([item for row in rows for item in sorted(row, key=attrgetter("priority"))], key=kind_of)
    found = []
    for (job_type, ordinary), group in groupby(by_type, key=kind_of):
        items = list(group)
        config = configs[job_type]
        size = config.batch_size
        if not (config.at_once and job_type in full):
            depth = depths[job_type]
            shared = depth / at_once if config.at_once else 0.0
            size = min(size, math.ceil(max(shared, (depth / SINGLE_MESSAGES) ** 2)))
        packs = _packs(items, size, at_once=config.at_once)
        found += [Message(job_type, tuple(pack), urgent=not ordinary) for pack in packs]
    return found


def _packs(items: Sequence[Queued], size: int, *, at_once: bool) -> list[list[ClaimToken]]:
    """Packs of up to ``size`` triggers, in the order in which their first triggers were dispatched."""
    packs: list[list[ClaimToken]] = []
    shared: list[ClaimToken] = []
    for item in items:
        token = ClaimToken(item.id, item.fence)
        if item.suspect or (item.at_most_once and not at_once):
            packs.append([token])
        elif 0 < len(shared) < size:
            shared.append(token)
        else:
            shared = [token]
            packs.append(shared)
    return packs
