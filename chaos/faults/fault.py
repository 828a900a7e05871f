"""What every fault is: aimed, injected, held, healed."""

import random
from abc import ABC, abstractmethod
from typing import ClassVar

from chaos.load.caller import Caller
from chaos.stage.cluster import Cluster


class Fault(ABC):
    """One kind of fault; an object serves one run. ``strikes`` times: ``aim``, ``inject``, hold, ``heal``, gap."""

    number: ClassVar[int]
    strikes: ClassVar[int] = 1
    #: In the long profile.
    long_strikes: ClassVar[int] = 1
    hold_seconds: ClassVar[float] = 0.0
    gap_seconds: ClassVar[float] = 3.0
    #: Watched after the last heal before the next fault.
    after_seconds: ClassVar[float] = 35.0

    @classmethod
    def cut(cls, *, strikes: int, hold_seconds: float, after_seconds: float) -> "type[Fault]":
        """The same fault, made as short as a small run needs it."""
        changes = {"strikes": strikes, "hold_seconds": hold_seconds, "after_seconds": after_seconds}
        return type(f"Short{cls.__name__}", (cls,), changes)

    def __init__(self, cluster: Cluster, caller: Caller, rng: random.Random) -> None:
        self.cluster, self.caller, self.rng = cluster, caller, rng

    @classmethod
    def lacks(cls) -> str:
        """What this machine has not, without which it cannot be shown; empty when it can."""
        return ""

    @abstractmethod
    def aim(self, strike: int) -> str:
        """Choose a victim and a way; returns what will be done, in a few words."""

    @abstractmethod
    def inject(self) -> None:
        """Break it; returns when it is broken."""

    @abstractmethod
    def heal(self) -> None:
        """Undo it, or wait until the supervisor has; returns when the cause is gone, not its effects."""
