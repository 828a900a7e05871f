"""Faults at named points of the code: a process is killed just there, by ``jobs.crash_points``."""

from chaos.faults.fault import Fault
from jobs.crash_points import POINTS

#: A point that no process passes in this time was left out of the load.
PASSED_SECONDS = 30.0
LEAD_SECONDS = 1.5
#: Points that a beat passes. If a worker's pool process dies at one of the others, its parent replaces it.
_OF_BEATS = ("materialize", "dispatch")


class CrashPoints(Fault):
    """The process that passes the point next dies as by ``kill -9``."""

    number, strikes, long_strikes, gap_seconds, after_seconds = 14, 3, 2 * len(POINTS), 4.0, 40.0

    def aim(self, strike: int) -> str:
        # Each in turn, from a first one that the seed chooses.
        if strike == 0:
            self._first = self.rng.randrange(len(POINTS))
        # One death after the other: without a leader in between, two leases would have to run out.
        self.cluster.must("a leader", self.cluster.leader, seconds=PASSED_SECONDS)
        self.cluster.wait(LEAD_SECONDS)
        self.point = POINTS[(self._first + strike * 3) % len(POINTS)]
        return f"the first to pass {self.point} dies"

    def inject(self) -> None:
        beats = self.cluster.processes.named("beat") if self.point.startswith(_OF_BEATS) else []
        for beat in beats:
            beat.expected = True
        armed = self.cluster.crash_points / self.point
        armed.touch()
        what = f"somebody to pass {self.point}"
        self.cluster.must(what, lambda: not armed.exists(), seconds=PASSED_SECONDS)
        self._beats = [(beat, beat.lives) for beat in beats]

    def heal(self) -> None:
        if self._beats:
            one = "a beat to be started again"
            self.cluster.must(one, lambda: any(b.lives > n for b, n in self._beats), seconds=PASSED_SECONDS)
        for beat, _ in self._beats:
            beat.expected = False
