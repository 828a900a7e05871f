"""The order in which threads of the web process take up requests: only so many of one key are at work at once.

Further calls of that key wait until one of its calls ends, in the order in which they came, and hold no thread. So a
key that calls without a pause, or whose calls take a second of processor each, leaves threads, and the interpreter, to
other keys. It has more of both while it calls alone, unless firings start late, which its calls may cause.

While others call, or firings start late, a key may compute for a quarter of the time. It owes the time that it computes
beyond that. A key that owes much has about one call at work at a time, and while it owes more, its line rests. On full
processors, where calls wait for a processor longer than they compute, a key may compute for a sixteenth of the time. On
free processors, calls that compute little are not counted.

A line is bounded, in requests and in bytes, and so are all lines together: a request beyond these bounds is refused.
Calls without a key are not counted: they are refused at once.
"""

import heapq
import re
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Generic, TypeVar

R = TypeVar("R")
#: The key, and whether the call may wait, as claims and event streams may. Calls that may wait have their own places.
Whose = tuple[str, bool]
#: How long after a call its caller counts as calling.
ABOUT_SECONDS = 1.0
#: Seconds that a key may compute per second while others call.
QUOTA = 0.25
#: The highest cost of a second of computing, where processors are full; where they are free, it costs one.
MAX_PRICE = 4.0
#: After so many seconds, the computing and waiting of calls counts half as much for the price.
HALF_LIFE_SECONDS = 2.0
#: Seconds owed: from the first on a key is heavy, above the second its line rests, and no key owes more than the third.
HEAVY, RESTS, MAX_OWED = 0.3, 0.4, 0.65
#: A call that computed for less time than this costs nothing where processors are free.
SHORT_SECONDS = 0.01
#: The cost of a call that is refused for lack of room (429), for each second by which the price is above one: the next
#: call of its line would be refused, too.
REFUSED_SECONDS = 0.03
#: How many keys' debts are remembered.
MAX_REMEMBERED = 1024

_AUTHORIZATION = re.compile(rb"\r\nauthorization:([^\r\n]*)", re.IGNORECASE)
_WAITS = re.compile(rb"(?:POST /api/v1/worker/claim|GET /api/v1/events)[? ]")


def whose(head: bytes) -> Whose | None:
    """The key in a request's head; None without a key. The key is the last word, after any number of spaces."""
    given = _AUTHORIZATION.search(head)
    words = given[1].decode("latin-1").split() if given else []
    return (words[-1], _WAITS.match(head) is not None) if words else None


class Turn(Enum):
    """A request may be taken up ``NOW``, or ``LATER`` in its turn; or its key's line is full, or all lines are."""

    NOW = auto()
    LATER = auto()
    KEY_FULL = auto()
    ALL_FULL = auto()


@dataclass(frozen=True)
class Bounds:
    """How many requests, and bytes of them, may stand in the line of one key and in all lines.

    The first request of a line is not held to its key's bounds.
    """

    requests_of_one: int = 256
    bytes_of_one: int = 8 * 1024 * 1024
    requests_in_all: int = 1024
    bytes_in_all: int = 64 * 1024 * 1024


@dataclass(frozen=True)
class Share:
    """How many requests of a key may be at work at once.

    ``general``: usually; ``heavy``: of a key that is heavy while others call; ``waiting``: of calls that may wait.
    """

    general: int
    heavy: int
    waiting: int


class Turns(Generic[R]):
    """For one thread alone. ``now`` is in seconds, by a clock that never steps back."""

    def __init__(self, share: Share, bounds: Bounds | None = None) -> None:
        self._share = share
        self._bounds = bounds or Bounds()
        self._at_work: Counter[Whose] = Counter()
        self._lines: dict[Whose, deque[tuple[R, int]]] = defaultdict(deque)
        #: The bytes and requests in the lines: of each key, and of all.
        self._bytes: Counter[Whose] = Counter()
        self._requests_in_all = self._bytes_in_all = 0
        #: When the rests of lines end, the earliest first; a line that rests is here once.
        self._rests: list[tuple[float, Whose]] = []
        self._resting: set[Whose] = set()
        #: How much keys owe, as of an instant; the key whose call ended last is at the end.
        self._owed: OrderedDict[Whose, tuple[float, float]] = OrderedDict()
        #: How long all calls have computed, and waited for a processor, as of an instant.
        self._computed, self._delayed, self._as_of = 0.0, 0.0, 0.0
        #: Until when firings count as starting late.
        self._late_until = 0.0
        #: When each caller called, the last caller at the end; forgotten after ``ABOUT_SECONDS``.
        self._called_at: OrderedDict[str, float] = OrderedDict()

    def note(self, caller: str, *, now: float) -> None:
        """Note a call of ``caller``: a key, or the empty text for all callers without a key."""
        self._called_at[caller] = now
        self._called_at.move_to_end(caller)
        while now - next(iter(self._called_at.values())) > ABOUT_SECONDS:
            self._called_at.popitem(last=False)

    def note_late_starts(self, *, until: float) -> None:
        """Firings of several tenants start late: until then no key has more because it calls alone."""
        self._late_until = until

    def is_unopposed(self, of: Whose, *, now: float) -> bool:
        """Whether that key computes much, and nothing holds it to its share."""
        return self._owed_by(of, now) >= HEAVY and not self._is_among_others(of, now)

    def begin(self, request: R, of: Whose, *, held: int, now: float) -> Turn:
        """Whether ``request`` may be taken up now; ``held``: its bytes. ``LATER``: ``end`` returns it in its turn."""
        self.note(of[0], now=now)
        if self._has_room(of, now):
            self._at_work[of] += 1
            return Turn.NOW
        bounds, line = self._bounds, self._lines.get(of)
        if line and (len(line) >= bounds.requests_of_one or self._bytes[of] + held > bounds.bytes_of_one):
            return Turn.KEY_FULL
        if self._requests_in_all >= bounds.requests_in_all or self._bytes_in_all + held > bounds.bytes_in_all:
            return Turn.ALL_FULL
        self._lines[of].append((request, held))
        self._count(of, 1, held)
        return Turn.LATER

    def end(
        self, of: Whose, *, now: float, computed: float = 0.0, delayed: float = 0.0, refused: bool = False
    ) -> list[R]:
        """A call of that key has ended, after ``computed`` seconds of processor and ``delayed`` seconds of waiting for
        one, or was ``refused`` for lack of room. Returns the requests of its line that are taken up now.
        """
        self._at_work[of] -= 1
        price = self._price(computed, delayed, now)
        cost = computed * (price - (computed < SHORT_SECONDS)) + refused * REFUSED_SECONDS * (price - 1)
        owed = min(self._owed_by(of, now) + cost, MAX_OWED)
        self._owed[of] = (owed, now)
        self._owed.move_to_end(of)
        if len(self._owed) > MAX_REMEMBERED:
            self._owed.popitem(last=False)
        if owed > RESTS and of not in self._resting and self._is_among_others(of, now):
            self._resting.add(of)
            heapq.heappush(self._rests, (now + (owed - RESTS) / QUOTA, of))
        return self._follow(of, now)

    def rested(self, *, now: float) -> list[R]:
        """The requests that are taken up now because their lines have rested."""
        following = []
        while self._rests and self._rests[0][0] <= now:
            _, of = heapq.heappop(self._rests)
            self._resting.discard(of)
            following += self._follow(of, now)
        return following

    def seconds_of_rest(self, *, now: float) -> float:
        """Seconds until the first line has rested."""
        return max(0.0, self._rests[0][0] - now) if self._rests else float("inf")

    def _follow(self, of: Whose, now: float) -> list[R]:
        following = []
        line = self._lines.get(of)
        while line and self._has_room(of, now):
            request, held = line.popleft()
            self._count(of, -1, -held)
            self._at_work[of] += 1
            following.append(request)
        if line is not None and not line:
            del self._lines[of], self._bytes[of]
        if not self._at_work[of]:
            del self._at_work[of]
        return following

    def _has_room(self, of: Whose, now: float) -> bool:
        return of not in self._resting and self._at_work[of] < self._most(of, now)

    def _most(self, of: Whose, now: float) -> int:
        if of[1]:
            return self._share.waiting
        is_heavy = self._owed_by(of, now) >= HEAVY and self._is_among_others(of, now)
        return self._share.heavy if is_heavy else self._share.general

    def _price(self, computed: float, delayed: float, now: float) -> float:
        """The cost of a second of computing: one, plus the seconds that recent calls waited for a processor per second
        that they computed.
        """
        fades = 0.5 ** ((now - self._as_of) / HALF_LIFE_SECONDS)
        self._computed = self._computed * fades + computed
        self._delayed, self._as_of = self._delayed * fades + delayed, now
        return min(MAX_PRICE, 1 + self._delayed / self._computed) if self._computed else 1.0

    def _owed_by(self, of: Whose, now: float) -> float:
        owed, at = self._owed.get(of, (0.0, now))
        return max(0.0, owed - QUOTA * (now - at))

    def _is_among_others(self, of: Whose, now: float) -> bool:
        if now < self._late_until:
            return True
        key, _ = of
        # The last caller other than this key is the last or the last but one.
        last = [at for caller, at in islice(reversed(self._called_at.items()), 2) if caller != key][:1]
        return any(now - at <= ABOUT_SECONDS for at in last)

    def _count(self, of: Whose, requests: int, held: int) -> None:
        self._bytes[of] += held
        self._requests_in_all += requests
        self._bytes_in_all += held
