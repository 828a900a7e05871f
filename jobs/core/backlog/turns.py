"""Fair turns: whose turn it is among tenants with due work, by the service that each has received (DESIGN §8).

Start-time fair queueing (Goyal, Vin, Cheng, 1996). Each tenant has a tag: the service it has received, divided by its
weight. The tenant with the lowest tag is served next. The clock is the tag of the last tenant served. A tenant that
becomes active begins at the clock: it does not wait behind the backlog of others, and it gets nothing for idle time.
Within a tenant its priorities share in the same way, 8:4:2:1. Within a priority the longest due goes first.

Service is counted in slot-seconds: a small amount for each dispatch, and one for each second that a trigger is in
flight. It is not known beforehand how long that will be. So each slot that a tenant holds counts as one slot-second
more while it is held. Therefore a tenant with long jobs gets as many slots as one with short jobs, and not as many
dispatches.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import datetime
from itertools import islice

from jobs.core.backlog.shares import Ask, Lane, Share, urgent_lanes
from jobs.core.policies import LEAST_URGENT

#: Slots in use move a tenant's tag ahead of the clock by at most this many seconds of its fair share.
MAX_DEBT_SECONDS = 1.0
#: A turn is cut into about this many portions for each active tenant, so that tags, and not portions, decide.
PORTIONS = 64
#: The least size of a portion, in a turn with places for ``PORTIONS`` portions of this size. With many tenants a
#: portion would be one place otherwise. A tenant's triggers lie together, so a few triggers of each tenant cost much
#: less than one trigger each of a few times as many tenants.
CHUNK = 8
#: Shares of tenants that are idle and have no debt worth keeping are forgotten once there are this many.
IDLE_SHARES = 1000
#: How many tenants with urgent work of a job type a turn looks at beyond that type's full queue.
URGENT_LOOKS = 1000
SMALL_DEBT = 0.01
#: So many places of a turn go by the tags alone. Beyond them a lane gets no more than its depth: otherwise the few
#: tenants with due work of a type would be given all places of that type, hundreds of portions a turn, most in vain.
BY_TAG_ALONE = 40
#: Stands for the tag of an entry that was taken out of its heap.
_ASIDE = -1.0


def portion_of(places: int, tenants: int) -> int:
    """How many of a turn's ``places`` a tenant gets at a time, with ``tenants`` tenants in line."""
    return max(CHUNK if places >= CHUNK * PORTIONS else 1, places // (PORTIONS * max(1, tenants)))


def _never(_tenant_id: int, _job_type: str) -> bool:
    return False


class Turns:
    """The due lanes of all tenants, in the order in which they are served.

    Each job type has a heap of its tenants, so that a type without room costs nothing. A tenant without room is set
    aside until the next turn. So the cost of an allotment depends on the places it allots, not on the number of lanes.
    """

    def __init__(self) -> None:
        self._shares: dict[int, Share] = {}
        self._heaps: dict[str, list[tuple[float, int, int, datetime, int]]] = {}
        self._aside: set[int] = set()
        self._types: Counter[str] = Counter()
        #: By job type, the tenants with urgent due work; the tenant whose last look is longest ago comes first.
        self._urgent: dict[str, dict[int, None]] = {}
        self._active: set[int] = set()
        #: Of all tenants with due work together.
        self._weight = 0.0
        self._holding: set[int] = set()
        self._clock = 0.0
        self._turn = 0
        self._is_barred: Callable[[int, str], bool] = _never

    def __contains__(self, lane: Lane) -> bool:
        """Whether the lane has due work."""
        share = self._shares.get(lane.tenant_id)
        return share is not None and share.level(lane.priority).lanes.get(lane.job_type) is lane

    @property
    def tenants(self) -> Set[int]:
        """The tenants with due work."""
        return self._active

    @property
    def aside(self) -> Set[int]:
        """The tenants with due work that had no room when their turn came."""
        return self._aside

    @property
    def job_types(self) -> list[str]:
        """The job types with due work."""
        return [name for name, lanes in self._types.items() if lanes]

    def lanes(self) -> list[Lane]:
        """All lanes with due work."""
        return [lane for tenant_id in self._active for lane in self.lanes_of(tenant_id)]

    def lanes_of(self, tenant_id: int) -> list[Lane]:
        """The due lanes of the tenant."""
        share = self._shares.get(tenant_id)
        return [lane for level in share.levels.values() for lane in level.lanes.values()] if share else []

    def first(self, count: int, tenant_ids: Iterable[int]) -> list[int]:
        """The next in line of the given tenants, which all have due work; up to ``count`` of them."""
        return heapq.nsmallest(count, tenant_ids, key=lambda tenant_id: self._shares[tenant_id].rank)

    def weigh(self, tenant_id: int, weight: float) -> None:
        """Set the tenant's weight from here on."""
        share = self._shares.setdefault(tenant_id, Share())
        if tenant_id in self._active:
            self._weight += weight - share.weight
        share.weight = weight

    def add(self, lane: Lane) -> None:
        """Note that the lane has due work. May be repeated."""
        share = self._shares.setdefault(lane.tenant_id, Share())
        if lane.tenant_id not in self._active:
            self._active.add(lane.tenant_id)
            self._weight += share.weight
            share.tag = max(share.tag, self._clock)
            share.since = self._turn
        level = share.level(lane.priority)
        if not level.lanes:
            level.tag = max(level.tag, share.clock)
        if lane.job_type not in level.lanes:
            self._types[lane.job_type] += 1
        level.lanes[lane.job_type] = lane
        if lane.priority <= LEAST_URGENT:
            self._urgent.setdefault(lane.job_type, {})[lane.tenant_id] = None
        if lane.job_type not in share.entries:
            self._stand(lane.tenant_id, share, lane)

    def remove(self, lane: Lane) -> None:
        """Note that the lane has no due work any more. May be repeated."""
        share = self._shares.get(lane.tenant_id)
        if share is None or share.level(lane.priority).lanes.pop(lane.job_type, None) is None:
            return
        self._types[lane.job_type] -= 1
        if lane.priority <= LEAST_URGENT and not urgent_lanes(share, lane.job_type):
            self._urgent[lane.job_type].pop(lane.tenant_id, None)
        if not share.active:
            self._active.discard(lane.tenant_id)
            self._weight -= share.weight
            self._aside.discard(lane.tenant_id)
            share.entries = {name: tag for name, tag in share.entries.items() if tag != _ASIDE}
            if len(self._shares) > 2 * len(self._active) + IDLE_SHARES:
                self._forget_idle()

    def begin(self, in_flight: Mapping[tuple[int, int], int]) -> None:
        """The past is unknown: count triggers in flight, by (tenant, priority), as service that each level received."""
        for (tenant_id, priority), count in in_flight.items():
            level = self._shares.setdefault(tenant_id, Share()).level(priority)
            level.tag += count / level.weight

    def hold(self, in_flight: Mapping[int, int], *, seconds: float) -> None:
        """Note how many triggers of each tenant are in flight now, and have been for ``seconds``."""
        fair = sum(in_flight.values()) / self._weight if self._active else 0.0
        ceiling = self._clock + max(MAX_DEBT_SECONDS, seconds) * fair
        for tenant_id in self._holding.union(in_flight):
            share = self._shares.setdefault(tenant_id, Share())
            count = in_flight.get(tenant_id, 0)
            share.tag = max(share.tag, min(share.tag + count * seconds / share.weight, ceiling))
            share.held = count
            self._advance(tenant_id, share)
        self._holding = set(in_flight)

    def _advance(self, tenant_id: int, share: Share) -> None:
        """A tenant whose rank fell moves ahead in line. One whose rank rose moves back when it is reached."""
        rank = share.rank
        for name in [name for name, entry in share.entries.items() if entry > rank]:
            del share.entries[name]
            self._stand_again(tenant_id, share, name)

    def recall(
        self, room_of: Callable[[int], int], is_barred: Callable[[int, str], bool] | None = None
    ) -> None:
        """Put tenants that were set aside back in line if they have room now. Call it once a turn.

        ``is_barred``: whether a tenant's work of a job type must not start in this turn.
        """
        self._turn += 1
        self._is_barred = is_barred or _never
        for tenant_id in [tenant_id for tenant_id in self._aside if room_of(tenant_id) > 0]:
            self._return(tenant_id, self._shares[tenant_id])

    def allot(self, limit: int, rooms: dict[str, int], room_of: Callable[[int], int]) -> list[Ask]:
        """Give out up to ``limit`` places, in order; many of them only to lanes that are known to have triggers due.

        ``rooms``: how many triggers each job type may start; reduced by the places given out. ``room_of``: how many a
        tenant may start in all.
        """
        asks: list[Ask] = []
        given: dict[int, int] = {}
        left: dict[Lane, int] = {}
        served: list[tuple[int, Share, str]] = []
        free = BY_TAG_ALONE
        places = min(limit, sum(room for room in rooms.values() if room > 0))
        portion = portion_of(places, len(self._active))
        heads = [
            self._heaps[name][0] + (name,)
            for name, room in rooms.items()
            if room > 0 and self._heaps.get(name)
        ]
        heapq.heapify(heads)
        while heads and limit > 0:
            tag, *_, tenant_id, name = heapq.heappop(heads)
            heapq.heappop(self._heaps[name])
            share = self._shares.get(tenant_id)
            # An entry is stale once its tenant stands in the heap with another tag.
            if share is not None and share.entries.get(name) == tag:
                del share.entries[name]
                lane = self._next_lane(tenant_id, share, rooms, left if free <= 0 else {})
                if self._is_barred(tenant_id, name):
                    self._set_aside(tenant_id, share, name)
                elif tag < share.rank or not share.serves(name):
                    self._stand_again(tenant_id, share, name)
                elif lane is None:
                    served.append((tenant_id, share, name))
                else:
                    room = room_of(tenant_id) - given.get(tenant_id, 0)
                    count = min(portion, limit, room, rooms[lane.job_type])
                    count = min(count, max(free, left.get(lane, lane.depth)))
                    if count <= 0:
                        self._set_aside(tenant_id, share, name)
                    else:
                        self._clock = max(self._clock, share.tag)
                        share.clock = max(share.clock, share.level(lane.priority).tag)
                        share.charge(lane.priority, count)
                        self._holding.add(tenant_id)
                        asks.append(Ask(lane, count))
                        limit, free = limit - count, free - count
                        given[tenant_id] = given.get(tenant_id, 0) + count
                        left[lane] = left.get(lane, lane.depth) - count
                        rooms[lane.job_type] -= count
                        self._stand_again(tenant_id, share, name)
            if rooms[name] > 0 and self._heaps[name]:
                heapq.heappush(heads, self._heaps[name][0] + (name,))
        for tenant_id, share, name in served:
            self._stand_again(tenant_id, share, name)
        return asks

    def allot_urgent(self, limit: int, rooms: dict[str, int], room_of: Callable[[int], int]) -> list[Ask]:
        """As ``allot``, but only for urgent lanes. ``rooms``: the room left to them where a type has no other."""
        asks: list[Ask] = []
        given: Counter[int] = Counter()
        for name in [name for name, room in rooms.items() if room > 0 and self._urgent.get(name)]:
            able = [each for each in self._next_urgent(name) if room_of(each) > given[each]]
            tenants = self.first(rooms[name], able)
            portion = -(-rooms[name] // max(1, len(tenants)))
            for tenant_id in tenants:
                share = self._shares[tenant_id]
                for lane in urgent_lanes(share, name):
                    room = room_of(tenant_id) - given[tenant_id]
                    count = min(portion, limit - given.total(), room, rooms[name])
                    if count > 0:
                        share.charge(lane.priority, count)
                        self._holding.add(tenant_id)
                        asks.append(Ask(lane, count))
                        given[tenant_id] += count
                        rooms[name] -= count
        return asks

    def _next_urgent(self, job_type: str) -> list[int]:
        """The next ``URGENT_LOOKS`` tenants with urgent work, without those whose work is barred."""
        waiting = self._urgent[job_type]
        seen = list(islice(waiting, URGENT_LOOKS))
        if len(seen) < len(waiting):
            for tenant_id in seen:
                del waiting[tenant_id]
            waiting |= dict.fromkeys(seen)
        return [tenant_id for tenant_id in seen if not self._is_barred(tenant_id, job_type)]

    def give_back(self, lane: Lane, count: int, *, passed: int = 0) -> None:
        """Take back ``count`` places that were given out and not used.

        ``passed``: how many others were spent on triggers that may not start. They count as dispatches, and like a
        tenant without room, this one gets nothing for the time it waited. Otherwise it would be served before all
        others again and again, until no such trigger is left.
        """
        share = self._shares.get(lane.tenant_id)
        if share is None or not (count or passed):
            return
        if passed:
            share.tag = max(share.tag, self._clock)
        share.charge(lane.priority, -count)
        self._advance(lane.tenant_id, share)
        if lane.tenant_id in self._aside:
            self._return(lane.tenant_id, share)

    def _set_aside(self, tenant_id: int, share: Share, job_type: str) -> None:
        self._aside.add(tenant_id)
        share.entries[job_type] = _ASIDE

    def _return(self, tenant_id: int, share: Share) -> None:
        aside = [name for name, tag in share.entries.items() if tag == _ASIDE]
        returning = [name for name in aside if not self._is_barred(tenant_id, name)]
        if len(returning) == len(aside):
            self._aside.discard(tenant_id)
        if returning:
            # The reasons for not being served were its own, so it gets nothing for that time.
            share.tag = max(share.tag, self._clock)
        for name in returning:
            del share.entries[name]
            self._stand_again(tenant_id, share, name)

    def _next_lane(
        self, tenant_id: int, share: Share, rooms: Mapping[str, int], left: Mapping[Lane, int]
    ) -> Lane | None:
        """The tenant's next lane. ``left``: how many triggers of a lane may still be due, if not any number."""
        found: tuple[float, int, datetime] | None = None
        chosen = None
        for priority, level in share.levels.items():
            for lane in level.lanes.values():
                rank = (level.tag, priority, lane.floor)
                if (
                    rooms.get(lane.job_type, 0) > 0
                    and left.get(lane, 1) > 0
                    and (found is None or rank < found)
                    and not self._is_barred(tenant_id, lane.job_type)
                ):
                    found, chosen = rank, lane
        return chosen

    def _stand(self, tenant_id: int, share: Share, lane: Lane) -> None:
        share.entries[lane.job_type] = rank = share.rank
        # Among equals, the tenant with the more urgent work goes first. Among these, the newcomer goes first, so that
        # it does not wait for a whole round of others. It is one of equals once a round.
        entry = (rank, lane.priority, -share.since, lane.floor, tenant_id)
        heapq.heappush(self._heaps.setdefault(lane.job_type, []), entry)

    def _stand_again(self, tenant_id: int, share: Share, job_type: str) -> None:
        floors = [level.lanes[job_type] for level in share.levels.values() if job_type in level.lanes]
        if floors:
            self._stand(tenant_id, share, min(floors, key=lambda lane: (lane.priority, lane.floor)))

    def _forget_idle(self) -> None:
        idle = [
            tenant_id
            for tenant_id, share in self._shares.items()
            if tenant_id not in self._active and not share.held and share.tag < self._clock + SMALL_DEBT
        ]
        for tenant_id in idle:
            del self._shares[tenant_id]
