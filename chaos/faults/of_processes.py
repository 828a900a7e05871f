"""Faults of Carillon's own processes: killed, frozen, deployed again."""

import signal

from chaos.faults.fault import Fault
from chaos.stage.cluster import RESTART_PATIENCE_SECONDS
from chaos.stage.processes import ManagedProcess
from stage.processes import signalled


class Killed(Fault):
    """``kill -9`` of a process and its children; the supervisor starts it again."""

    victim: ManagedProcess
    _lives = 0

    def inject(self) -> None:
        self._lives = self.victim.lives
        self.cluster.processes.kill(self.victim)

    def heal(self) -> None:
        what = f"{self.victim.name} to be started again"
        self.cluster.must(what, lambda: self.victim.lives > self._lives, seconds=RESTART_PATIENCE_SECONDS)

    def leader(self) -> ManagedProcess:
        """The beat that leads, as soon as one does."""
        found: ManagedProcess = self.cluster.must("a leader", self.cluster.leader, seconds=30)
        return found

    def a_worker(self, strike: int) -> ManagedProcess:
        """A worker with processes to lose; where there are pull workers, one of them at every other strike."""
        if strike % 2 == 0 and (pulling := self.cluster.processes.named("pull")):
            return self.rng.choice(pulling)
        return self.rng.choice(
            [worker for worker in self.cluster.processes.named("worker") if worker.family()]
        )


class WorkerDies(Killed):
    number, strikes, long_strikes, gap_seconds, after_seconds = 1, 2, 10, 6.0, 40.0

    def aim(self, strike: int) -> str:
        self.cluster.wait(self.rng.uniform(0, 2))
        self.victim = self.a_worker(strike)
        return f"kill -9 {self.victim.name}"


class LeaderDies(Killed):
    number, strikes, long_strikes, gap_seconds, after_seconds = 2, 2, 10, 5.0, 20.0

    def aim(self, strike: int) -> str:
        # Not as soon as it leads: firings that waited for it would wait for two leases, and the limit is of one.
        self.leader()
        self.cluster.wait(self.rng.uniform(1, 4))
        self.victim = self.leader()
        return f"kill -9 {self.victim.name}, the leader"


class Frozen(Killed):
    """SIGSTOP of a process and its children, SIGCONT at the heal."""

    def inject(self) -> None:
        signalled(self.victim.family(), signal.SIGSTOP)

    def heal(self) -> None:
        signalled(self.victim.family(), signal.SIGCONT)


class LeaderFreezes(Frozen):
    number, long_strikes, hold_seconds, after_seconds = 3, 2, 25.0, 20.0

    def aim(self, strike: int) -> str:
        self.victim = self.leader()
        return f"SIGSTOP {self.victim.name}, the leader, for {self.hold_seconds:g} s"


class WorkerFreezes(Frozen):
    number, long_strikes, hold_seconds, after_seconds = 4, 2, 60.0, 20.0

    def aim(self, strike: int) -> str:
        self.victim = self.a_worker(strike)
        return f"SIGSTOP {self.victim.name} for {self.hold_seconds:g} s"


class RollingDeploy(Killed):
    """SIGTERM to one process after the other; the supervisor starts each again before the next one goes."""

    number, after_seconds = 15, 20.0

    def aim(self, strike: int) -> str:
        return "SIGTERM to each process in turn"

    def inject(self) -> None:
        for prefix in ("web", "beat", "worker", "pull"):
            for actor in self.cluster.processes.named(prefix):
                self.cluster.restart(actor)
                self.cluster.wait(6)

    def heal(self) -> None:
        """The last one is back already."""
