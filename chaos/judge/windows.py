"""Faults as stretches of time."""

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.history import Healed, Struck
from chaos.judge.limits import OF_FAULT, OTHERS_LEADER_SECONDS, OTHERS_SECONDS, Limits


@dataclass(frozen=True)
class Window:
    """One strike of a fault until it was healed, in seconds since 1970."""

    id: str
    number: int
    what: str
    struck_at: float
    healed_at: float
    affects: frozenset[str] | None = None
    leader: bool = False
    kills: bool = True
    clock_seconds: float = 0.0
    resets: bool = False

    @property
    def limits(self) -> Limits:
        return OF_FAULT[self.number]

    def spares(self, tenant: str) -> bool:
        """Whether it touches nothing of the tenant, and so excuses nothing."""
        return self.affects is not None and tenant not in self.affects

    @property
    def others_seconds(self) -> float:
        """How late a firing of a tenant that it spares may start."""
        return OTHERS_LEADER_SECONDS if self.leader else OTHERS_SECONDS

    def may_repeat(self, tenant: str) -> bool:
        """Whether it may have cut short triggers that the tenant had in flight."""
        reaches = self.limits.ends_process or not self.spares(tenant)
        return self.limits.may_repeat and self.kills and reaches

    def touches(self, start: float, end: float, *, after: float = 0.0) -> bool:
        """Whether the stretch meets the window, prolonged by ``after`` seconds."""
        return start <= self.healed_at + after and end >= self.struck_at


@dataclass(frozen=True)
class Episode:
    """Strikes of one kind in a row; ``ends_at`` is when the next kind begins, or the log was read."""

    number: int
    windows: tuple[Window, ...]
    ends_at: float

    @property
    def struck_at(self) -> float:
        return self.windows[0].struck_at

    @property
    def healed_at(self) -> float:
        return max(window.healed_at for window in self.windows)


def windows_of(struck: Sequence[Struck], healed: Sequence[Healed], *, until: float) -> list[Window]:
    """The strikes in the order in which they came; one that was not healed lasts until ``until``."""
    ends = {heal.id: heal.at for heal in healed}
    return [
        Window(
            strike.id,
            strike.number,
            strike.what,
            strike.at,
            ends.get(strike.id, until),
            None if strike.affects is None else frozenset(strike.affects),
            strike.leader,
            strike.kills,
            strike.clock_seconds,
            strike.resets,
        )
        for strike in sorted(struck, key=lambda strike: strike.at)
    ]
