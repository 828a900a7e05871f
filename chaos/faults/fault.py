"""The base of all faults: each is aimed, injected, held and healed."""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from chaos.history import TenantMade
from chaos.load.caller import Caller
from chaos.load.definitions import ROOMY
from chaos.stage.cluster import Cluster


class Fault(ABC):
    """One kind of fault; an object serves one run. ``strikes`` times: ``aim``, ``inject``, hold, ``heal``, gap."""

    number: ClassVar[int]
    strikes: ClassVar[int] = 1
    #: The strike to begin with, where each is of another kind.
    first: ClassVar[int] = 0
    #: In the long profile.
    long_strikes: ClassVar[int] = 1
    hold_seconds: float = 0.0
    #: In the long profile, where it differs.
    long_hold_seconds: ClassVar[float | None] = None
    gap_seconds: ClassVar[float] = 3.0
    #: Watched after the last heal before the next fault.
    after_seconds: ClassVar[float] = 35.0
    #: As in ``history.Struck``; ``aim`` may say otherwise of its strike.
    affects: Sequence[str] | None = None
    changes_leader: bool = False
    kills: bool = True
    clock_seconds: float = 0.0
    resets: bool = False
    #: Whether workers must ask a name server that never answers, where the machine lets them.
    silent_names: ClassVar[bool] = False
    #: Whether it strikes hosts. Processes and servers are then spread over some, without proxies between.
    hosts: ClassVar[bool] = False

    @classmethod
    def cut(cls, *, strikes: int, hold_seconds: float, after_seconds: float, first: int = 0) -> "type[Fault]":
        """The same fault, made as short as a small run needs it."""
        changes = {
            "strikes": strikes,
            "hold_seconds": hold_seconds,
            "after_seconds": after_seconds,
            "first": first,
        }
        return type(f"Short{cls.__name__}", (cls,), changes)

    def __init__(self, cluster: Cluster, caller: Caller, rng: random.Random) -> None:
        self.cluster, self.caller, self.rng = cluster, caller, rng

    @classmethod
    def lacks(cls) -> str:
        """The thing that the fault needs and this machine lacks; empty when the fault can be shown."""
        return ""

    def tenant(self, slug: str, *, max_in_flight: int = ROOMY) -> bool:
        """Make a tenant of this fault's own, unless an earlier strike has; returns whether it was made now."""
        if slug in self.caller.keys:
            return False
        self.caller.keys[slug] = self.cluster.make_tenant(slug, max_in_flight=max_in_flight)
        self.cluster.journal.note(TenantMade(slug=slug, max_in_flight=max_in_flight))
        return True

    @abstractmethod
    def aim(self, strike: int) -> str:
        """Choose a victim and a way; returns a description of the strike, in a few words."""

    @abstractmethod
    def inject(self) -> None:
        """Break it; returns when it is broken."""

    @abstractmethod
    def heal(self) -> None:
        """Undo it, or wait until the supervisor has; returns when the cause is gone, not its effects."""
