"""Leases of beats: take, renew, release, and share out; expiry is computed and compared in SQL alone (DESIGN §6).

The partitions of all jobs are cut into shards with a lease each. One shard, called ``leader``, is the default: who
holds it leads. With several, every beat also keeps a lease of its own that says it lives, so that all of them know how
many there are to share. The number of shards is part of every name: beats that disagree about it share nothing, and
each lot of them covers all partitions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from jobs.models.fields import PARTITIONS
from jobs.store import db

_SQL = db.queries("leases")
LEADER = "leader"


@dataclass(frozen=True, slots=True)
class Shard:
    """Partitions ``first`` to ``last``, both included, and the lease over them. ``term``: under which it is held.

    ``locked``: somebody has locked the lease's row, so that it cannot be prolonged, nor taken.
    """

    lease: str
    first: int = 0
    last: int = PARTITIONS - 1
    term: int | None = None
    locked: bool = False


@dataclass(frozen=True, slots=True)
class Reign:
    """Proof of leadership, carried by every leader write. ``term`` is null when leader election is switched off.

    ``shards`` are all that the holder leads; ``lease`` and ``term`` are of one of them. Without any, the lease is over
    all partitions.
    """

    lease: str
    holder: str
    term: int | None
    shards: tuple[Shard, ...] = ()

    @property
    def part(self) -> float:
        """How much of all partitions the reign is over; 1: all."""
        return sum(shard.last - shard.first + 1 for shard in self.shards) / PARTITIONS if self.shards else 1.0

    @property
    def alone(self) -> bool:
        """Whether nobody else dispatches while the reign lasts."""
        return self.term is not None and not self.shards

    def proof(self) -> dict[str, object]:
        """The parameters every statement checks that serves all jobs alike: that the holder leads at all."""
        return {"lease": self.lease, "term": self.term}

    def shard_proof(self) -> dict[str, object]:
        """The parameters of a statement that serves only jobs of the reign's shards. ``partitions`` is null for all."""
        held = self.shards or (Shard(self.lease, term=self.term),)
        partitions = [number for shard in held for number in range(shard.first, shard.last + 1)]
        return {
            "leases": [shard.lease for shard in held],
            "terms": None if self.term is None else [shard.term for shard in held],
            "partitions": None if len(partitions) == PARTITIONS else partitions,
        }


class Share(NamedTuple):
    """How many shards are a beat's to hold, of how many beats; ``strangers``: leases alive of another division."""

    shards: int
    beats: int
    strangers: int


class Taken(NamedTuple):
    """Shards begun under new terms. ``abandoned``: another may have left one with work half done. ``locked``: shards
    that are free, but whose rows somebody has locked.
    """

    shards: list[Shard]
    abandoned: bool
    locked: list[Shard]


def divide(number: int) -> tuple[Shard, ...]:
    """All partitions in ``number`` shards (1 to 256), as even as can be."""
    bounds = [PARTITIONS * nth // number for nth in range(number + 1)]
    names = [f"{LEADER}/{number}/{nth + 1}" if number > 1 else LEADER for nth in range(number)]
    return tuple(
        Shard(name, first, end - 1) for name, first, end in zip(names, bounds, bounds[1:], strict=False)
    )


def take(
    shards: Sequence[Shard], *, holder: str, most: int, duration: timedelta, idle: timedelta = timedelta()
) -> Taken:
    """Take up to ``most`` of the shards that are free, expired for ``idle`` or the holder's, under new terms.

    Waits for no lock. May be repeated.
    """
    names = [shard.lease for shard in shards]
    rows = _SQL["take"](names=names, holder=holder, most=most, duration=duration, idle=idle)
    by_lease = {shard.lease: shard for shard in shards}
    taken = [replace(by_lease[row.name], term=row.term) for row in rows if row.term is not None]
    locked = [replace(by_lease[row.name], locked=True) for row in rows if row.term is None]
    return Taken(taken, any(row.abandoned for row in rows if row.term is not None), locked)


def renew(shards: Sequence[Shard], *, holder: str, duration: timedelta) -> list[Shard]:
    """Prolong exactly these reigns. Returns those that go on, be they ``locked``; stop leading the others."""
    rows = _SQL["renew"](**_terms(shards), holder=holder, duration=duration)
    kept = {row.name: row.locked for row in rows}
    return [replace(shard, locked=kept[shard.lease]) for shard in shards if shard.lease in kept]


def release(shards: Sequence[Shard], *, holder: str, handed_over: bool = False) -> None:
    """End exactly these reigns at once; harmless when they are over.

    ``handed_over``: the holder goes on with others and has nothing unfinished, so its successors need not look for it.
    """
    _SQL["release"](**_terms(shards), holder=holder, handed_over=handed_over)


def share(shards: Sequence[Shard], *, holder: str, duration: timedelta) -> Share:
    """Say for ``duration`` that the holder lives, and ask how many of the shards it is to hold. May be repeated."""
    [row] = _SQL["share"](
        presence=_presence(shards, holder),
        presences=_presences(shards),
        names=[shard.lease for shard in shards],
        holder=holder,
        duration=duration,
    )
    return Share(row.share, row.beats, row.strangers)


def depart(shards: Sequence[Shard], *, holder: str) -> None:
    """Say that the holder is going: the others divide the shards without it. May be repeated."""
    _SQL["depart"](presence=_presence(shards, holder), holder=holder)


def _terms(shards: Sequence[Shard]) -> dict[str, object]:
    return {"names": [shard.lease for shard in shards], "terms": [shard.term for shard in shards]}


def _presences(shards: Sequence[Shard]) -> str:
    return f"beat/{len(shards)}/"


def _presence(shards: Sequence[Shard], holder: str) -> str:
    # The end of a holder's name is its own; the whole may be longer than a lease's name.
    return _presences(shards) + holder.rpartition(":")[2]
