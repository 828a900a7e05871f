"""Faults of a process's clock. Postgres' is the only one that decides, and it is left alone."""

from chaos.faults.fault import Fault
from chaos.stage.clocks import COMPILER

_SKEWS = (300, -300, 3600, -3600)


class ClockSkew(Fault):
    """One process five minutes or an hour off, by a step in the middle of its work and by one back."""

    number, strikes, long_strikes, hold_seconds, gap_seconds, after_seconds = 10, 2, 4, 10.0, 2.0, 15.0

    @classmethod
    def lacks(cls) -> str:
        return "" if COMPILER else "a C compiler (cc), for a library that sets a process's clock"

    def aim(self, strike: int) -> str:
        leader = self.cluster.must("a leader", self.cluster.leader, seconds=30).name
        names = [name for name in self.cluster.processes.actors if name != "receiver"]
        self.victim = leader if strike % 2 == 0 else self.rng.choice(names)
        self.skew = self.rng.choice(_SKEWS)
        return f"the clock of {self.victim} {self.skew:+d} s"

    def inject(self) -> None:
        self.cluster.clocks.set(self.victim, self.skew)

    def heal(self) -> None:
        self.cluster.clocks.set(self.victim, 0)
