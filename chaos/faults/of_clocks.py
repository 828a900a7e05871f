"""Faults of time: a process's clock; the database's, which is the only one that decides; the rules of time zones."""

import importlib.util
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chaos.faults.fault import Fault
from chaos.load.definitions import Plan
from chaos.stage.clocks import COMPILER

_SKEWS = (300, -300, 3600, -3600)
SOONER, LATER = "Asia/Karachi", "Asia/Tashkent"
SILENCE_SECONDS = 10.0
#: Long enough for each process to start again, and further ahead than a beat looks.
RESTARTED_SECONDS = 150.0


class ClockSkew(Fault):
    """One process's clock is five minutes or an hour off: it steps in the middle of the work, and later steps back."""

    number, strikes, long_strikes, hold_seconds, gap_seconds, after_seconds = 10, 2, 4, 10.0, 2.0, 15.0

    @classmethod
    def lacks(cls) -> str:
        return "" if COMPILER else "a C compiler (cc), for a library that sets a process's clock"

    def aim(self, strike: int) -> str:
        leader = self.cluster.must("a leader", self.cluster.leader, seconds=30).name
        names = [actor.name for actor in self.cluster.processes.started()]
        self.victim = leader if strike % 2 == 0 else self.rng.choice(names)
        self.skew = self.rng.choice(_SKEWS)
        return f"the clock of {self.victim} {self.skew:+d} s"

    def inject(self) -> None:
        self.cluster.clocks.set(self.victim, self.skew)

    def heal(self) -> None:
        self.cluster.clocks.set(self.victim, 0)


class DatabaseTime(Fault):
    """The clock of Postgres' machine steps, and steps back; or every process starts again with other rules of zones."""

    number, strikes, long_strikes, hold_seconds, gap_seconds, after_seconds = 27, 3, 3, 20.0, 40.0, 40.0
    #: Further than any lease; and an hour back, in which nothing falls due until the heal.
    steps = (90, -3600)

    @classmethod
    def lacks(cls) -> str:
        return ClockSkew.lacks()

    def aim(self, strike: int) -> str:
        self.step = self.steps[strike] if strike < len(self.steps) else 0
        self.clock_seconds = self.step
        # A call just before a step may be about an instant after it.
        self.caller.silent.set()
        self.cluster.wait(SILENCE_SECONDS)
        if self.step:
            return f"the database's clock {self.step:+d} s for {self.hold_seconds:g} s"
        return "another release of the time zone database, under which a job fires sooner and one later"

    def inject(self) -> None:
        if self.step:
            self.cluster.database.server.set_clock(self.step)
        else:
            self._change_rules()

    def heal(self) -> None:
        if self.step:
            self.cluster.database.server.set_clock(0)
        self.caller.silent.clear()

    def _change_rules(self) -> None:
        tenant = next(iter(self.caller.keys))
        instant = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=RESTARTED_SECONDS)
        for plan in zoned(tenant, instant):
            self.caller.make(plan)
        found = str(other_rules(self.cluster.home / "other-tzdata"))
        self.cluster.python_path = os.pathsep.join(filter(None, [found, os.environ.get("PYTHONPATH", "")]))
        for actor in self.cluster.processes.started():
            actor.environment = {**actor.environment, "PYTHONPATH": self.cluster.python_path}
            self.cluster.restart(actor)
        self.cluster.wait(instant.timestamp() - datetime.now(UTC).timestamp())


def other_rules(home: Path) -> Path:
    """A release of ``tzdata`` in which ``SOONER`` is an hour further east, and ``LATER`` an hour further west."""
    spec = importlib.util.find_spec("tzdata")
    assert spec is not None
    assert spec.submodule_search_locations
    package = home / "tzdata"
    shutil.copytree(spec.submodule_search_locations[0], package)
    for zone, rules in ((SOONER, "Asia/Dhaka"), (LATER, "Asia/Dubai")):
        shutil.copy(package / "zoneinfo" / rules, package / "zoneinfo" / zone)
    marker = package / "__init__.py"
    marker.write_text(marker.read_text() + '\nIANA_VERSION = "2099z"\n')
    return home


def zoned(tenant: str, instant: datetime) -> list[Plan]:
    """A job that must fire at ``instant`` by the new rules alone, one by the old rules alone, and one by both."""

    def cron(at: datetime, timezone: str = "UTC") -> dict[str, Any]:
        expression = f"{at.second} {at.minute} {at.hour} * * ?"
        return {"type": "cron", "cron": expression, "cron_dialect": "quartz", "timezone": timezone}

    hour = timedelta(hours=1)
    # Both were five hours east.
    sooner, later = instant + 6 * hour, instant + 5 * hour
    often = {"type": "cron", "cron": "*/10 * * * * ?", "cron_dialect": "quartz"}
    return [
        Plan(tenant=tenant, name="zone-sooner", schedule=cron(sooner, SOONER), expected=cron(instant)),
        Plan(tenant=tenant, name="zone-later", schedule=cron(later, LATER), expected=cron(instant + hour)),
        Plan(tenant=tenant, name="zone-often", schedule={**often, "timezone": SOONER}),
    ]
