"""Dispatch: who goes next, decided and queued in one transaction (DESIGN §8).

``choice`` decides and queues, ``parking`` keeps what may not start yet out of its sight, ``queues`` is what dispatchers
share of each job type's queue.
"""

from jobs.store.dispatch.choice import Dispatched, Queued, Rates, dispatch
from jobs.store.dispatch.parking import release, unpark
from jobs.store.dispatch.queues import Window, open_queues

__all__ = ("Dispatched", "Queued", "Rates", "Window", "dispatch", "open_queues", "release", "unpark")
