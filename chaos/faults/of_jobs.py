"""Faults that come with the jobs: targets that misbehave, handlers that kill their worker."""

import threading

from chaos.faults.fault import Fault
from chaos.load.definitions import Plan
from chaos.stage.names import may_hang

MODES = ("hang", "drip", "flood", "bomb", "redirect", "retry-after")


class BadSink(Fault):
    """A tenant whose targets hang, drip, flood, bomb, redirect in circles or ask for a century of patience."""

    number, hold_seconds, after_seconds = 13, 30.0, 15.0

    def aim(self, strike: int) -> str:
        return f"a tenant with bad targets for {self.hold_seconds:g} s"

    def inject(self) -> None:
        self.caller.keys.setdefault("sink", "")
        if not self.caller.keys["sink"]:
            self.caller.keys["sink"] = self.cluster.make_tenant("sink", max_in_flight=20)
        self._jobs = [
            self.caller.make(
                Plan(
                    tenant="sink",
                    name=f"sink-{mode}-{n}",
                    schedule={"type": "interval", "every_seconds": 2},
                    target="sink",
                    query={"mode": mode},
                    fault="sink",
                )
            )
            for mode in MODES
            for n in range(3)
        ]

    def heal(self) -> None:
        for job in self._jobs:
            self.caller.ask(job, "cancel", over=threading.Event())


class Poison(Fault):
    """Jobs that end their worker's process each time; three times each, and the worker goes on."""

    #: Three crashes, each noticed when a lease runs out, and two back-offs: some 95 s.
    number, hold_seconds, after_seconds = 16, 105.0, 20.0

    def aim(self, strike: int) -> str:
        return "a job that segfaults and one that is out of memory"

    def inject(self) -> None:
        for kind in ("segfault", "memory"):
            plan = Plan(
                tenant=next(iter(self.caller.keys)),
                name=f"poison-{kind}",
                schedule={"type": "immediate"},
                target="poison",
                job_type=f"chaos.{kind}",
                fault="poison",
            )
            self.caller.make(plan)

    def heal(self) -> None:
        """The jobs are quarantined by now; if not, the judge says so."""


class BadNames(Fault):
    """A tenant whose targets' names are looked up and never answered, beside one whose names resolve at once."""

    number, hold_seconds, after_seconds = 24, 40.0, 20.0
    affects = ("names",)
    silent_names = True
    names, attempts = 500, 2

    @classmethod
    def lacks(cls) -> str:
        return "" if may_hang() else "the right to give a process another /etc/resolv.conf (root has it)"

    def aim(self, strike: int) -> str:
        self._strike = strike
        self.tenant("names")
        if self.tenant("named"):
            for n in range(4):
                schedule = {"type": "interval", "every_seconds": 2}
                self.caller.make(Plan(tenant="named", name=f"named-{n}", schedule=schedule, host="localhost"))
        return f"{self.names} webhooks to names that never answer"

    def inject(self) -> None:
        for n in range(self.names):
            self.caller.make(
                Plan(
                    tenant="names",
                    name=f"name-{self._strike}-{n}",
                    schedule={"type": "immediate"},
                    target="sink",
                    host=f"n{self._strike}-{n}.hang.test",
                    max_attempts=self.attempts,
                    fault="names",
                )
            )

    def heal(self) -> None:
        """Each has used its attempts, or is given up in its own time."""
