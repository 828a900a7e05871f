"""Leadership of one beat: take, keep, share and hand over leases (DESIGN §6).

A lease decides who works, never what is true: every leader write proves its term in SQL, and each is a compare-and-set
besides, so a deposed leader that wakes up late changes nothing, and two leaders at once are merely wasteful.

With one shard, the holder of its lease leads and the others stand by. With several, each beat holds an even share of
them: at every renewal it counts the living beats, hands over the shards above its share, and takes free ones up to it.
A beat that died is counted until its leases expire; then the others share its shards.

No lock stops a leader. A lease with a locked row can be neither prolonged nor taken: once it has run out, beats lead
without a term until the lock is gone, as they do without election. A beat whose dispatch keeps failing gives its leases
up to others and leaves them to these for a while.
"""

import os
import random
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from jobs.store import leases
from jobs.store.leases import LEADER, Reign, Shard
from jobs.telemetry import get_logger

log = get_logger()
#: A beat that holds less than its share looks again this soon: another is about to hand over, or to expire.
SHORT_SECONDS = 1.0
#: After giving its leases up a beat takes for so long only what stays free for longer than all others need to look.
ABSTAIN_SECONDS = 15.0


class Leader:
    """Holds at most one reign, over any number of shards. ``election`` off means: always lead all, without a term.

    ``inheritances`` goes up whenever a reign begins over what another may have left with work half done.
    """

    def __init__(self, *, lease: timedelta, election: bool = True, shards: int = 1) -> None:
        self._duration = lease
        self._election = election
        self._shards = leases.divide(shards)
        self._holder = ""
        self._held: list[Shard] = []
        self._reign: Reign | None = None if election else Reign(LEADER, self.holder(), None)
        self._strangers = False
        self._wait = self._third = lease.total_seconds() / 3
        self._renew_after = self._abstains_until = 0.0
        self._locked: dict[str, float] = {}
        self.inheritances = 0

    @staticmethod
    def holder() -> str:
        """A name no other process has, even after this one died and its pid was given away."""
        return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:12]}"

    def lead(self) -> Reign | None:
        """The present reign, renewed or newly taken; None while others lead. Raises what the database raises.

        Renews at a third of the lease. The process clock only spaces the renewals; expiry is the database's to say.
        """
        if not self._election or (self._reign and time.monotonic() < self._renew_after):
            return self._reign
        self._holder = self._holder or self.holder()
        known, self._locked = self._locked, {}
        held = self._renewed(known)
        share = self._share()
        if len(held) > share:
            held = self._hand_over_surplus(held, share)
        elif len(held) < share:
            held = sorted(held + self._take(held, share, known), key=lambda shard: shard.first)
        short = bool(self._locked) or (len(self._shards) > 1 and len(held) < share)
        if self._locked and not known:
            log.warning("lease locked", leases=sorted(self._locked))
        self._wait = min(SHORT_SECONDS, self._third) if short else self._third
        self._renew_after = time.monotonic() + self._wait
        if held != self._held:
            self._held, self._reign = held, self._reign_over(held)
        return self._reign

    def step_down(self) -> None:
        """Forget the reign, without a word to the database: it cannot be reached, or says we no longer lead."""
        if self._election:
            self._held, self._reign = [], None

    @property
    def reign(self) -> Reign | None:
        """The present reign as far as is known; its writes prove whether it still is."""
        return self._reign

    def give_up(self) -> None:
        """Leave the leases to others, as dispatch fails here; take them again soon only if no other beat does."""
        if not self._election:
            return
        self.hand_over()
        self._abstains_until = time.monotonic() + ABSTAIN_SECONDS
        self._holder = ""  # what we left is another's work by now

    def hand_over(self) -> None:
        """Release everything so that others start at once. May be repeated."""
        if not self._election or not self._holder:
            return
        if self._held:
            leases.release(self._held, holder=self._holder)
            log.info("hand over", terms=_terms(self._held))
        if len(self._shards) > 1:
            leases.depart(self._shards, holder=self._holder)
        self.step_down()

    def standby_seconds(self) -> float:
        """How long a standby waits before it tries again: a third of the lease, less while its share is due to it."""
        return self._wait * random.uniform(0.7, 1.0)  # noqa: S311

    def _renewed(self, known: dict[str, float]) -> list[Shard]:
        if not self._held:
            return []
        ours = [shard for shard in self._held if shard.term is not None]
        kept = leases.renew(ours, holder=self._holder, duration=self._duration) if ours else []
        self._note_locked(known, [shard for shard in kept if shard.locked])
        names = {shard.lease for shard in kept}
        if lost := [shard for shard in ours if shard.lease not in names]:
            log.warning("deposed", terms=_terms(lost))
        return [replace(shard, locked=False) for shard in kept]

    def _share(self) -> int:
        if len(self._shards) == 1:
            return 1
        share = leases.share(self._shards, holder=self._holder, duration=self._duration)
        if share.strangers and not self._strangers:
            log.warning("other beats divide the jobs into another number of shards", leases=share.strangers)
        self._strangers = bool(share.strangers)
        return share.shards

    def _hand_over_surplus(self, held: list[Shard], share: int) -> list[Shard]:
        leases.release(held[share:], holder=self._holder, handed_over=True)
        log.info("hand over", terms=_terms(held[share:]))
        return held[:share]

    def _take(self, held: list[Shard], share: int, known: dict[str, float]) -> list[Shard]:
        ours = {shard.lease for shard in held}
        wanted = [shard for shard in self._shards if shard.lease not in ours]
        taken = leases.take(
            wanted,
            holder=self._holder,
            most=share - len(held),
            duration=self._duration,
            idle=self._duration / 2 if time.monotonic() < self._abstains_until else timedelta(),
        )
        if taken.shards:
            log.info("lead", terms=_terms(taken.shards), holder=self._holder)
        self.inheritances += taken.abandoned
        self._note_locked(known, taken.locked)
        # Only just found locked, it may be another beat that takes it.
        since = time.monotonic() - SHORT_SECONDS
        unproven = [
            replace(shard, locked=False) for shard in taken.locked if self._locked[shard.lease] <= since
        ]
        if unproven and all(shard.term is not None for shard in self._held):
            log.warning("lead without a term", leases=[shard.lease for shard in unproven])
        return taken.shards + unproven

    def _note_locked(self, known: dict[str, float], shards: Sequence[Shard]) -> None:
        """Remember since when their leases have been found locked."""
        now = time.monotonic()
        self._locked |= {shard.lease: known.get(shard.lease, now) for shard in shards}

    def _reign_over(self, held: list[Shard]) -> Reign | None:
        if not held:
            return None
        several = tuple(held) if len(self._shards) > 1 else ()
        proven = all(shard.term is not None for shard in held)
        return Reign(held[0].lease, self._holder, held[0].term if proven else None, several)


def _terms(shards: Sequence[Shard]) -> dict[str, int | None]:
    return {shard.lease: shard.term for shard in shards}
