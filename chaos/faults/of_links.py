"""Faults of the links between processes and servers."""

from chaos.faults.fault import Fault
from chaos.stage.proxy import Weather

_MODES = {
    "black hole": Weather(hole_up=True, hole_down=True),
    "black hole from the server": Weather(hole_down=True),
    "black hole to the server": Weather(hole_up=True),
    "refused": Weather(refuse=True),
    "100 ± 50 ms": Weather(delay=0.1, jitter=0.05),
}


class Partition(Fault):
    """One process cut off from one server, in one way or another; at the heal the link is reset as often as not."""

    number, long_strikes, hold_seconds, gap_seconds, after_seconds = 9, 6, 30.0, 10.0, 40.0

    def aim(self, strike: int) -> str:
        # Most of all the processes that matter most: the leader, a worker, and then whoever it is.
        leader = self.cluster.must("a leader", self.cluster.leader, seconds=30).name
        actors = self.cluster.processes.actors
        others = [name for name, _ in self.cluster.proxies.links if name in actors and name != leader]
        pulling = [actor.name for actor in self.cluster.processes.named("pull")]
        if pulling and strike % 4 < 2:  # first a worker of either kind
            workers = [actor.name for actor in self.cluster.processes.named("worker")]
            name = self.rng.choice(workers if strike % 4 else pulling)
        else:
            name = leader if strike % 2 else self.rng.choice(others)
        self.link = name, "web" if name in pulling else self.rng.choice(("postgres", "postgres", "redis"))
        self.mode = self.rng.choice(list(_MODES))
        self.resets = self.rng.random() < 0.5
        ends = ", then reset" if self.resets else ""
        return f"{self.mode} between {self.link[0]} and {self.link[1]} for {self.hold_seconds:g} s{ends}"

    def inject(self) -> None:
        self.cluster.proxies.set(*self.link, _MODES[self.mode])

    def heal(self) -> None:
        self.cluster.proxies.set(*self.link, Weather())
        if self.resets:
            self.cluster.proxies.cut(*self.link)
