"""Dispatch: who goes next, decided and queued in one transaction (DESIGN §8).

``memory`` is what one dispatcher knows of the backlog, ``choice`` allots places and queues, ``decisions`` decides about
single triggers, ``parking`` keeps what may not start yet out of sight, ``queues`` is what dispatchers share of each job
type's queue, ``targets`` what stands between triggers and the hosts they call.
"""

from jobs.store.dispatch.choice import Dispatched, Rates, dispatch
from jobs.store.dispatch.decisions import Queued
from jobs.store.dispatch.memory import Memory
from jobs.store.dispatch.parking import release, unpark
from jobs.store.dispatch.queues import Window, open_queues
from jobs.store.dispatch.targets import Following, Releasing

__all__ = (
    "Dispatched",
    "Following",
    "Memory",
    "Queued",
    "Rates",
    "Releasing",
    "Window",
    "dispatch",
    "open_queues",
    "release",
    "unpark",
)
