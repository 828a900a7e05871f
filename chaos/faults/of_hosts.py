"""Faults of hosts: one is cut off from all others and from the stage, with all its processes at work."""

from chaos.faults.fault import Fault
from chaos.stage.cluster import DATABASE_HOST, HOSTS
from chaos.stage.hosts import may_have_hosts


class HostCutOff(Fault):
    """The host of the beat that follows, of the leader, of the web: only a leader that must change may be noticed.

    By turns the switch drops every packet, so that nothing answers, and the host's own network card is off, so that
    every call fails at once.
    """

    number, strikes, long_strikes, hold_seconds, gap_seconds, after_seconds = 30, 6, 6, 30.0, 15.0, 30.0
    hosts = True

    @classmethod
    def lacks(cls) -> str:
        return (
            ""
            if may_have_hosts()
            else "the right to make network namespaces, or iproute2 (root has the right)"
        )

    def aim(self, strike: int) -> str:
        self._host = self.choose(strike)
        self._silent = strike // (self.strikes // 2) % 2 == 0
        how = "its switch drops every packet" if self._silent else "its network card is off"
        return f"host {self._host} cut off for {self.hold_seconds:g} s: {how}"

    def choose(self, strike: int) -> str:
        """The host to cut off."""
        leader = self.cluster.must("a leader", self.cluster.leader, seconds=30).name
        other = {"beat1": "beat2", "beat2": "beat1"}[leader]
        self.changes_leader = strike % 3 == 1
        # While the leader changes, firings of any tenant may be missed, or replaced by later ones.
        self.affects, self.kills = None if self.changes_leader else (), False
        return HOSTS[(other, leader, "web")[strike % 3]]

    def inject(self) -> None:
        self._set(connected=False)

    def heal(self) -> None:
        self._set(connected=True)

    def _set(self, *, connected: bool) -> None:
        assert self.cluster.network is not None
        if self._silent:
            self.cluster.network.set_port(self._host, passes=connected)
        else:
            self.cluster.network.hosts[self._host].set_card(up=connected)


class WorkersHostCutOff(HostCutOff):
    """Each host of workers in turn."""

    number, strikes, long_strikes = 31, 4, 4

    def choose(self, strike: int) -> str:
        return ("workers1", "workers2")[strike % 2]


class DatabaseHostCutOff(HostCutOff):
    """The host of Postgres and Redis."""

    number, strikes, long_strikes, after_seconds = 32, 2, 2, 60.0

    def choose(self, strike: int) -> str:
        return DATABASE_HOST
