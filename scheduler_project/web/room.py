"""The waiting room of a web process: connections that no thread serves, because no whole request has come yet.

It bounds how long each connection may wait, how many there are, of one address and in all, and how many bytes they have
sent. Past a bound the connection that waited longest leaves, so that a newcomer that sends its request at once is
always served. There are no sockets here: the worker closes the connections that the room returns.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

G = TypeVar("G", bound=Hashable)


@dataclass(frozen=True)
class Bounds:
    """``in_all`` and ``of_one_address`` count connections. ``bytes_in_all`` counts the bytes that they sent and that no
    thread serves yet.
    """

    in_all: int = 2000
    of_one_address: int = 200
    bytes_in_all: int = 64 * 1024 * 1024


@dataclass
class Place:
    address: Hashable
    leaves_at: float
    held: int = 0


class Room(Generic[G]):
    """``enter`` and ``note_bytes`` return the guests that must leave to make room: they are out of the room already."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        #: In the order in which the guests came; so are the guests of each address.
        self._places: dict[G, Place] = {}
        self._of_address: dict[Hashable, dict[G, None]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, guest: G) -> bool:
        return guest in self._places

    def enter(self, guest: G, *, address: Hashable, leaves_at: float, is_shared: bool = False) -> list[G]:
        """Let ``guest`` wait until ``leaves_at``. At a bound, the first guest of its address, or of all, leaves."""
        left = []
        neighbours = self._of_address.setdefault(address, {})
        if not is_shared and len(neighbours) >= self._bounds.of_one_address:
            left.append(self._oldest(neighbours))
        elif len(self._places) >= self._bounds.in_all:
            left.append(self._oldest(self._places))
        for other in left:
            self.leave(other)
        self._places[guest] = Place(address, leaves_at)
        self._of_address.setdefault(address, {})[guest] = None
        return left

    def stay(self, guest: G, *, leaves_at: float) -> None:
        self._places[guest].leaves_at = leaves_at

    def note_bytes(self, guest: G, held: int) -> list[G]:
        """``guest`` has sent ``held`` bytes in all. Past the bound, the senders that have waited longest leave."""
        place = self._places[guest]
        self._bytes += held - place.held
        place.held = held
        left: list[G] = []
        if self._bytes > self._bounds.bytes_in_all:
            senders = [other for other, place in self._places.items() if place.held and other != guest]
            for other in senders:
                self.leave(other)
                left.append(other)
                if self._bytes <= self._bounds.bytes_in_all:
                    break
        return left

    def leave(self, guest: G) -> None:
        place = self._places.pop(guest)
        self._bytes -= place.held
        neighbours = self._of_address[place.address]
        del neighbours[guest]
        if not neighbours:
            del self._of_address[place.address]

    def overdue(self, now: float) -> list[G]:
        """The guests whose time is over: they are out of the room already."""
        found = [guest for guest, place in self._places.items() if place.leaves_at <= now]
        for guest in found:
            self.leave(guest)
        return found

    def hurry(self, *, leaves_at: float) -> None:
        """No guest may wait beyond ``leaves_at``."""
        for place in self._places.values():
            place.leaves_at = min(place.leaves_at, leaves_at)

    @staticmethod
    def _oldest(guests: Iterable[G]) -> G:
        return next(iter(guests))
