"""Faults of the machine Postgres is on: lost for good, so that a standby takes over; or its disk is full."""

import functools
import os
import threading
from collections import Counter

import psycopg

from chaos.faults.fault import Fault
from chaos.history import Answered, Replaced
from chaos.load.definitions import Plan
from chaos.stage.disk import may_mount
from chaos.stage.proxy import Weather

STANDBY_SECONDS = 60.0
WRITING_SECONDS = 1.0
EARLY_SECONDS = 3.0
#: How far an asynchronous standby is behind when its server is lost: more than any would be on one machine.
BEHIND_SECONDS = 0.5
PROBE_SECONDS = 0.5
#: A job that takes a few blocks of its own.
LARGE_BYTES = 40_000
WRITTEN = "CREATE TABLE IF NOT EXISTS chaos_written (strike int NOT NULL, n int NOT NULL)"


class Failover(Fault):
    """The server is lost, with its disk. Its standby is promoted, and every proxy is pointed there.

    Meanwhile a client of the fault writes one row after the other, to count acknowledged rows that are gone.
    """

    number, long_strikes, hold_seconds, gap_seconds, after_seconds = 7, 2, 5.0, 30.0, 30.0
    synchronous = True

    def aim(self, strike: int) -> str:
        self._strike = strike
        self._acknowledged: list[int] = []
        self._early = self.rng.random() < 0.5
        how = "which has every commit" if self.synchronous else f"which is {BEHIND_SECONDS:g} s behind"
        late = f", {EARLY_SECONDS:g} s after all have been pointed there" if self._early else ""
        return f"Postgres lost for good; after {self.hold_seconds:g} s its standby, {how}, is promoted{late}"

    def _point(self) -> None:
        """Let every process find the standby where the server was."""
        database = self.cluster.database
        self.cluster.proxies.point("postgres", database.standby_socket or database.socket)

    def _write(self, url: str) -> None:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                while True:
                    n = len(self._acknowledged)
                    connection.execute("INSERT INTO chaos_written VALUES (%s, %s)", [self._strike, n])
                    self._acknowledged.append(n)
        except psycopg.OperationalError:
            """The server is lost."""

    def inject(self) -> None:
        """Make the standby first: a copy of the whole server is felt, too."""
        cluster, synchronous = self.cluster, self.synchronous
        cluster.query(WRITTEN)
        cluster.follow(synchronous=synchronous)
        followed = functools.partial(cluster.database.followed, synchronous=synchronous)
        cluster.must("a standby that follows", followed, seconds=STANDBY_SECONDS)
        writer = threading.Thread(target=self._write, args=[cluster.database.url], daemon=True)
        writer.start()
        cluster.wait(WRITING_SECONDS)
        if not synchronous:
            cluster.proxies.set("standby", "upstream", Weather(hole_down=True))
            cluster.wait(BEHIND_SECONDS)
        cluster.database.lose_server()
        writer.join()

    def heal(self) -> None:
        if self._early:  # the address may move before the promotion; until then the standby takes no writes
            self._point()
            self.cluster.wait(EARLY_SECONDS)
        self.cluster.database.promote()
        self._point()
        self.cluster.proxies.set("standby", "upstream", Weather())
        self.cluster.proxies.cut("standby", "upstream")
        rows = self.cluster.query(f"SELECT n FROM chaos_written WHERE strike = {self._strike}")
        lost = set(self._acknowledged) - {n for (n,) in rows}
        self.cluster.journal.note(
            Replaced(id=f"{self.number}.{self._strike}", acknowledged=len(self._acknowledged), lost=len(lost))
        )


class AsynchronousFailover(Failover):
    """The same with an asynchronous standby. Rows that it lacks are lost, acknowledged or not; they are counted."""

    number, long_strikes, synchronous = 17, 1, False


class DiskFull(Fault):
    """No room for another block, and a client of the API that needs just that."""

    number, hold_seconds, after_seconds = 11, 20.0, 40.0

    @classmethod
    def lacks(cls) -> str:
        return "" if may_mount() else "the right to mount a file system that can be filled (root has it)"

    def aim(self, strike: int) -> str:
        self._answers: Counter[str] = Counter()
        self._over = threading.Event()
        self._client = threading.Thread(target=self._ask, daemon=True)
        return f"Postgres' disk is full for {self.hold_seconds:g} s"

    def _ask(self) -> None:
        tenant = next(iter(self.caller.keys))
        while not self._over.wait(PROBE_SECONDS):
            plan = Plan(
                tenant=tenant,
                name=f"large-{os.urandom(8).hex()}",
                schedule={"type": "once", "run_at": "2099-01-01T00:00:00Z"},
                body=os.urandom(LARGE_BYTES // 2).hex(),
            )
            self._answers[self.caller.try_to_make(plan)] += 1

    def inject(self) -> None:
        self.cluster.disk.fill()
        self._client.start()

    def heal(self) -> None:
        self._over.set()
        self._client.join()
        self.cluster.disk.free()
        server = self.cluster.database.server
        if (
            server.running() is None
        ):  # no room for its log: it ended, and a supervisor has tried in vain until now
            server.stop()
            server.start()
        self.cluster.journal.note(Answered(id=f"{self.number}.0", answers=dict(self._answers)))
