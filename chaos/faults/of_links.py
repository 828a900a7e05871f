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
    """One process is cut off from one server, in one of several ways; half of the heals also reset the link."""

    number, long_strikes, hold_seconds, gap_seconds, after_seconds = 9, 6, 30.0, 10.0, 40.0

    def aim(self, strike: int) -> str:
        # Prefer the processes that matter most: the leader, a worker, and then any other.
        leader = self.cluster.must("a leader", self.cluster.leader, seconds=30).name
        actors = self.cluster.processes.actors
        others = [name for name, _ in self.cluster.proxies.links if name in actors and name != leader]
        pulling = [actor.name for actor in self.cluster.processes.named("pull")]
        if pulling and strike % 4 < 2:  # first a worker of either kind
            workers = [actor.name for actor in self.cluster.processes.named("worker")]
            name = self.rng.choice(workers if strike % 4 else pulling)
        else:
            name = leader if strike % 2 else self.rng.choice(others)
        self.link = (
            name,
            "web" if name in pulling else self.rng.choice(("postgres", "postgres", self.cluster.broker_name)),
        )
        self.mode = self.rng.choice(list(_MODES))
        self.resets = self.rng.random() < 0.5
        ends = ", then reset" if self.resets else ""
        return f"{self.mode} between {self.link[0]} and {self.link[1]} for {self.hold_seconds:g} s{ends}"

    def inject(self) -> None:
        self.cluster.proxies.set(*self.link, _MODES[self.mode])

    def heal(self) -> None:
        # What a black hole kept back is let through first, so work may begin just before the reset.
        self.cluster.proxies.set(*self.link, Weather())
        if self.resets:
            self.cluster.proxies.cut(*self.link)


class SlowServers(Fault):
    """Every link to the broker, or to Postgres, slower than it should be; or one connection to Postgres in ten dies."""

    number, strikes, long_strikes, hold_seconds, gap_seconds, after_seconds = 22, 5, 5, 20.0, 15.0, 30.0
    long_hold_seconds = 30.0
    #: A server, the weather of its links, and its description. A round trip waits at both ends.
    modes: tuple[tuple[str, Weather, str], ...] = (
        ("broker", Weather(delay=0.01), "20 ms"),
        ("broker", Weather(delay=0.1), "200 ms"),
        ("broker", Weather(delay=1.0), "2,000 ms"),
        ("postgres", Weather(delay=0.025), "50 ms"),
        ("postgres", Weather(dying=0.1), "one in ten dies"),
    )

    def aim(self, strike: int) -> str:
        server, self.weather, what = self.modes[strike % len(self.modes)]
        self.server = self.cluster.broker_name if server == "broker" else server
        more = what if self.weather.dying else f"{what} more a round trip"
        return f"every connection to {self.server}: {more}, for {self.hold_seconds:g} s"

    def inject(self) -> None:
        self._set(self.weather)

    def heal(self) -> None:
        self._set(Weather())

    def _set(self, weather: Weather) -> None:
        for process, server in self.cluster.proxies.links:
            if server == self.server:
                self.cluster.proxies.set(process, server, weather)
