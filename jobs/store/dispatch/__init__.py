"""Dispatch: decide which triggers go next and queue them, in one transaction (DESIGN §8).

``memory`` holds the knowledge that one dispatcher has of the backlog, ``choice`` allots places and queues, and
``decisions`` decides about single triggers. ``parking`` keeps triggers that may not start yet out of sight. ``queues``
holds the data of each job type's queue that dispatchers share, ``targets`` the rules between triggers and the hosts
they call.
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
