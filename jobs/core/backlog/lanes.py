"""Backlog: the knowledge that one dispatcher has of the waiting triggers (DESIGN §8). Pure, and only a memory.

The database holds the truth. The backlog remembers one instant of each lane, its floor: no waiting trigger of the lane
is due earlier. So a turn looks only at lanes that are due. In those it looks only from the floor on, past all triggers
that were dispatched before. The backlog learns of new work in three ways: from announcements, which every statement
that makes a trigger dispatchable leaves in the database; from notes of the materializer in the same process; and from
a slow sweep over all lanes, which finds the work that both missed. A floor that is too early costs a look. So news only
lowers a floor, and only a look at the lane itself raises it.
"""

import heapq
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from jobs.core.backlog.shares import FIRST_DEPTH, Lane
from jobs.core.backlog.turns import Turns


class News(NamedTuple):
    """A lane has a trigger that is due at ``floor``, and perhaps later ones."""

    tenant_id: int
    job_type: str
    priority: int
    floor: datetime


class Backlog:
    """The lanes of all tenants; those that are due stand in ``turns``."""

    def __init__(self) -> None:
        self._notes: deque[News] = deque()
        self.forget()

    def forget(self) -> None:
        """Start over: another beat led meanwhile, and changed the facts that were known."""
        self._lanes: dict[tuple[int, str, int], Lane] = {}
        self._future: list[tuple[datetime, tuple[int, str, int]]] = []
        self._again: list[Lane] = []
        self.turns = Turns()
        #: Whether in-flight triggers were counted as received service.
        self.begun = False

    def __len__(self) -> int:
        return len(self._lanes)

    def note(self, news: Iterable[News]) -> None:
        """Note triggers that were committed as pending. May be called from any thread."""
        self._notes.extend(news)

    def learn(self, news: Iterable[News]) -> None:
        """Take in announcements, the findings of a sweep, and notes."""
        for item in news:
            self._learn(item)
        while self._notes:
            self._learn(self._notes.popleft())

    def _learn(self, item: News) -> None:
        key = (item.tenant_id, item.job_type, item.priority)
        lane = self._lanes.get(key)
        if lane is None:
            self._lanes[key] = Lane(*item)
        elif item.floor < lane.floor:
            lane.floor = item.floor
        else:
            return
        heapq.heappush(self._future, (item.floor, key))

    def advance(self, now: datetime) -> None:
        """Put lanes in line whose floor has come, and lanes whose first triggers were locked by another transaction."""
        for lane in self._again:
            self.turns.add(lane)
        self._again.clear()
        while self._future and self._future[0][0] <= now:
            floor, key = heapq.heappop(self._future)
            found = self._lanes.get(key)
            # An entry is stale once its lane has another floor.
            if found is not None and found.floor == floor:
                self.turns.add(found)

    def settle(self, lane: Lane, floor: datetime | None, *, now: datetime) -> None:
        """No trigger of the lane can be taken now. Its first waiting trigger is due at ``floor``; None: none waits.

        If that trigger is due already, another transaction has locked it: the next turn looks at the lane again.
        """
        self.turns.remove(lane)
        lane.depth = FIRST_DEPTH
        if floor is None:
            self._lanes.pop(lane.key, None)
            return
        lane.floor = floor
        if floor <= now:
            self._again.append(lane)
        else:
            heapq.heappush(self._future, (floor, lane.key))

    def next_floor(self) -> datetime | None:
        """When the next lane falls due, of the lanes that are not in line; None when there is none."""
        while self._future:
            floor, key = self._future[0]
            lane = self._lanes.get(key)
            if lane is not None and lane.floor == floor:
                return floor
            heapq.heappop(self._future)
        return None
