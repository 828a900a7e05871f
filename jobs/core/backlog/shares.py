"""A tenant's share: the service it has received, and its lanes with due work, by priority (DESIGN §8)."""

from dataclasses import dataclass, field
from datetime import datetime

from jobs.core.policies import LEAST_URGENT

#: Service that a dispatch itself counts as, in slot-seconds: the service of a trigger that ends at once.
DISPATCH_SLOT_SECONDS = 0.01
#: Service that a slot counts as in advance, as long as it is held.
HELD_SLOT_SECONDS = 1.0
#: The guess at how many triggers of a lane are due, when nothing is known of it, and how it grows.
FIRST_DEPTH, DEPTH_GROWTH = 4, 8


@dataclass(slots=True, eq=False)
class Lane:
    """The waiting triggers of one tenant, job type and priority. None of them is due before ``floor``.

    ``depth``: a guess at how many of them are due. It rises when a look finds as many.
    """

    tenant_id: int
    job_type: str
    priority: int
    floor: datetime
    depth: int = FIRST_DEPTH

    @property
    def key(self) -> tuple[int, str, int]:
        return self.tenant_id, self.job_type, self.priority

    def move(self, floor: datetime, *, found: int) -> None:
        """A look found all that it asked for, ``found`` triggers; the last of them is due at ``floor``."""
        self.floor = floor
        if found >= self.depth:
            self.depth = found * DEPTH_GROWTH


@dataclass(slots=True)
class Ask:
    """A request to look at the next ``count`` triggers of a lane."""

    lane: Lane
    count: int


@dataclass(slots=True)
class Level:
    """One priority of a tenant. ``lanes``: its lanes with due work, by job type."""

    weight: int
    tag: float = 0.0
    lanes: dict[str, Lane] = field(default_factory=dict)


@dataclass(slots=True)
class Share:
    """One tenant. ``held``: its slots, those of this turn included. ``since``: the turn in which it came into line.
    ``entries``: by job type, its rank in the heap of that type."""

    weight: float = 100.0
    tag: float = 0.0
    held: int = 0
    clock: float = 0.0
    since: int = 0
    levels: dict[int, Level] = field(default_factory=dict)
    entries: dict[str, float] = field(default_factory=dict)

    def level(self, priority: int) -> Level:
        found = self.levels.get(priority)
        if found is None:
            found = self.levels[priority] = Level(8 >> priority)
        return found

    @property
    def active(self) -> bool:
        return any(level.lanes for level in self.levels.values())

    def serves(self, job_type: str) -> bool:
        return any(job_type in level.lanes for level in self.levels.values())

    @property
    def rank(self) -> float:
        return self.tag + self.held * HELD_SLOT_SECONDS / self.weight

    def charge(self, priority: int, dispatches: int) -> None:
        """Levels count only dispatches, because one long job must not hold back the next critical trigger."""
        self.held += dispatches
        self.tag += dispatches * DISPATCH_SLOT_SECONDS / self.weight
        level = self.level(priority)
        level.tag += dispatches / level.weight


def urgent_lanes(share: Share, job_type: str) -> list[Lane]:
    """The tenant's urgent lanes of a job type, in order of the service that their priorities have received."""
    levels = [
        level for level in share.levels.items() if level[0] <= LEAST_URGENT and job_type in level[1].lanes
    ]
    return [level.lanes[job_type] for _, level in sorted(levels, key=lambda one: (one[1].tag, one[0]))]
