"""Faults that come with tenants: one that misbehaves in every way at once, and a crowd of them."""

import signal
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

from chaos.faults.fault import Fault
from chaos.load.definitions import Plan
from chaos.stage.processes import ManagedProcess
from stage.processes import signalled

BAD, NEWCOMER = "bad", "newcomer"
#: The default quota of a payload, less the fields around the body.
LARGE_BYTES = 60_000
SERVED_SECONDS = 240.0
#: Long enough to make all the jobs that must trickle at once.
TRICKLE_SECONDS = 25.0
#: A crowd's tenants weigh 1 each.
WEIGHT = 100


class BadTenant(Fault):
    """Missed firings, parked ones, writes, webhooks that trickle, payloads at their limits: all at once."""

    number, hold_seconds, after_seconds = 25, 30.0, 40.0
    long_hold_seconds = 60.0
    affects = (BAD,)
    missed, parked, trickling, writes_per_second = 40_000, 100_000, 700, 500

    def aim(self, strike: int) -> str:
        self.tenant(BAD)
        self._undo = ExitStack()
        return (
            f"a tenant with {self.missed} missed, {self.parked} parked, {self.trickling} trickling, large payloads and "
            f"{self.writes_per_second} writes a second for {self.hold_seconds:g} s"
        )

    def inject(self) -> None:
        for kind, depth in (("missed", self.missed), ("one_by_one", self.parked)):
            [job_id] = self.cluster.backlog(kind, tenant=BAD, depth=depth).values()
            self._undo.callback(self.caller.cancel, BAD, job_id)
        large = [
            Plan(
                tenant=BAD, name=f"bad-large-{n}", schedule={"type": "interval", "every_seconds": 1},
                body="x" * LARGE_BYTES, fault=BAD,
            )
            for n in range(5)
        ]  # fmt: skip
        for plan in large:
            self._undo.callback(self.caller.ask, self.caller.make(plan), "cancel", over=threading.Event())
        # Made first: with so many writes the API has little time for other calls.
        at = (datetime.now(UTC) + timedelta(seconds=TRICKLE_SECONDS)).isoformat()
        self.caller.make_together(
            [
                Plan(
                    tenant=BAD, name=f"bad-drip-{n}", schedule={"type": "once", "run_at": at}, target="sink",
                    query={"mode": "drip"}, max_attempts=2, fault=BAD,
                )
                for n in range(self.trickling)
            ]
        )  # fmt: skip
        self._write()

    def _write(self) -> None:
        """Run a job by hand, again and again, from a process of its own."""
        [job_id] = self.cluster.backlog("flood", tenant=BAD, depth=0).values()
        argv = ("-m", "chaos.load.writer", self.caller.url, job_id, str(self.writes_per_second))
        writer = ManagedProcess(
            "writer", argv, {**self.cluster.plain_environment(), "API_KEY": self.caller.keys[BAD]},
            self.cluster.logs / "writer.log",
        )  # fmt: skip
        writer.start()
        self._undo.callback(lambda: writer.process and writer.process.wait())
        self._undo.callback(lambda: signalled(writer.family(), signal.SIGKILL))

    def heal(self) -> None:
        self._undo.close()


class Crowd(Fault):
    """2,000 tenants with too many firings, beside the load's, which weigh more, and one critical job a second."""

    number, hold_seconds, after_seconds = 26, 40.0, 20.0
    long_hold_seconds = 90.0
    affects = ()
    tenants, depth_per_second = 2_000, 250

    def aim(self, strike: int) -> str:
        if self.tenant(NEWCOMER):
            self.caller.make(
                Plan(
                    tenant=NEWCOMER, name="newcomer", priority="critical",
                    schedule={"type": "interval", "every_seconds": 1},
                )
            )  # fmt: skip
        self._depth = max(1, round(self.depth_per_second * self.hold_seconds / self.tenants))
        return f"{self.tenants} tenants with {self._depth} firings due each"

    def inject(self) -> None:
        self._weigh(WEIGHT)
        self.cluster.backlog("crowd", tenants=self.tenants, depth=self._depth)

    def heal(self) -> None:
        """Wait until the crowd is served. If firings are left after minutes, its tenants are suspended."""
        left = (
            "SELECT 1 FROM jobs_trigger t JOIN tenants_tenant n ON n.id = t.tenant_id"
            " WHERE n.slug LIKE 'crowd-%' AND t.phase = 'pending' LIMIT 1"
        )
        for _ in range(int(SERVED_SECONDS)):
            if not self.cluster.query(left):
                break
            self.cluster.wait(1)
        else:
            self.cluster.say("the crowd was not served: its tenants are suspended")
            self.cluster.query("UPDATE tenants_tenant SET status = 'suspended' WHERE slug LIKE 'crowd-%'")
        self._weigh(1)

    def _weigh(self, weight: int) -> None:
        self.cluster.query(f"UPDATE tenants_tenant SET weight = {weight} WHERE slug NOT LIKE 'crowd-%'")
