"""Faults of another client's locks and snapshots in the database: rows, a partition, an old view of everything."""

import threading

import psycopg

from chaos.faults.fault import Fault
from chaos.load.definitions import Plan

VICTIM = "victim"
FOUND_SECONDS = 40.0
_OF_VICTIM = f"tenant_id = (SELECT id FROM tenants_tenant WHERE slug = '{VICTIM}')"
#: The row that each mode locks. A trigger stays queued for milliseconds; the other rows last until they are found.
_ROWS = {
    "running": f"SELECT id FROM jobs_trigger WHERE phase = 'in_flight' AND state = 'running' AND {_OF_VICTIM}"
    " ORDER BY lease_expires_at DESC LIMIT 1 FOR UPDATE SKIP LOCKED",
    "parked": f"SELECT id FROM jobs_trigger WHERE parked AND held AND {_OF_VICTIM}"
    " ORDER BY scheduled_for LIMIT 1 FOR UPDATE SKIP LOCKED",
    "queued": f"SELECT id FROM jobs_trigger WHERE phase = 'in_flight' AND state = 'queued' AND {_OF_VICTIM}"
    " LIMIT 1 FOR UPDATE SKIP LOCKED",
    "tenant": f"SELECT id FROM tenants_tenant WHERE slug = '{VICTIM}' FOR UPDATE",
    "queue": "SELECT job_type FROM jobs_queue WHERE job_type = 'chaos.victim' FOR UPDATE",
    "lease": "SELECT name FROM jobs_lease WHERE expires_at > clock_timestamp() FOR UPDATE",
}
_PLANS = (
    Plan(tenant=VICTIM, name="victim-quick", schedule={"type": "interval", "every_seconds": 1}),
    Plan(tenant=VICTIM, name="victim-slow", schedule={"type": "interval", "every_seconds": 10}, seconds=7.0),
    Plan(
        tenant=VICTIM,
        name="victim-typed",
        schedule={"type": "interval", "every_seconds": 2},
        job_type="chaos.victim",
    ),
    Plan(
        tenant=VICTIM,
        name="victim-queue",
        schedule={"type": "interval", "every_seconds": 20},
        overlap_policy="queue",
        seconds=5.0,
    ),
)


PARTITION_OF_NOW = "SELECT tableoid::regclass::text FROM jobs_attempt ORDER BY started_at DESC LIMIT 1"


class Locking(Fault):
    """A lock or a snapshot that a connection of the fault holds until the heal."""

    def connect(self) -> psycopg.Connection:
        self.held = psycopg.connect(self.cluster.database.url, autocommit=False, connect_timeout=5)
        # Postgres must not end it for idling: it stands for a forgotten psql.
        self.held.execute("SET idle_in_transaction_session_timeout = 0")
        return self.held

    def heal(self) -> None:
        self.held.close()


class RowLock(Locking):
    """``FOR UPDATE`` of one row, held: as by a forgotten psql, or a handler that leaves its transaction open."""

    number, strikes, long_strikes, hold_seconds, gap_seconds, after_seconds = 20, 6, 6, 40.0, 15.0, 40.0
    long_hold_seconds = 60.0

    def aim(self, strike: int) -> str:
        if self.tenant(VICTIM):
            self._jobs = {plan.name: self.caller.make(plan) for plan in _PLANS}
        self.mode = list(_ROWS)[strike % len(_ROWS)]
        self.changes_leader = self.mode == "lease"
        self.affects = [] if self.changes_leader else [VICTIM]
        whose = "the leader's" if self.changes_leader else "a tenant's" if self.mode != "tenant" else "a"
        what = self.mode if self.mode in ("tenant", "queue", "lease") else f"{self.mode} trigger"
        return f"row lock on {whose} {what} for {self.hold_seconds:g} s"

    def inject(self) -> None:
        if self.mode == "parked":  # three of a job that runs one at a time: two of them wait
            for _ in range(3):
                self.caller.ask(self._jobs["victim-queue"], "run", over=_NEVER)
        connection = self.connect()

        def locked() -> bool:
            for _ in range(100):  # at once, and again, for rows that are not there for long
                if connection.execute(_ROWS[self.mode]).fetchall():
                    return True
                connection.rollback()
            return False

        self.cluster.must(f"a row to lock: {self.mode}", locked, seconds=FOUND_SECONDS)


class TableLock(Locking):
    """ACCESS EXCLUSIVE on the partition that claims write to; or a snapshot that lets no dead row be removed.

    While there is a snapshot the workers are at full load: dispatched triggers leave dead index entries behind.
    """

    number, strikes, long_strikes, gap_seconds, after_seconds = 21, 2, 2, 20.0, 30.0
    lock_seconds, hold_seconds, long_hold_seconds = 20.0, 60.0, 600.0
    depth_per_second = 150
    _asked_seconds = 0.0

    def aim(self, strike: int) -> str:
        self.mode = ("lock", "snapshot")[strike % 2]
        self._asked_seconds = self._asked_seconds or self.hold_seconds
        if self.mode == "lock":
            self.hold_seconds = min(self._asked_seconds, self.lock_seconds)
            self.affects = None
            return f"ACCESS EXCLUSIVE lock on the attempts of today for {self.hold_seconds:g} s"
        self.hold_seconds = self._asked_seconds
        self.affects = ["flood"]
        self.tenant("flood", max_in_flight=100)
        return f"a REPEATABLE READ snapshot for {self.hold_seconds:g} s, at full load"

    def inject(self) -> None:
        connection = self.connect()
        if self.mode == "lock":
            [[partition]] = connection.execute(PARTITION_OF_NOW).fetchall()
            connection.execute("SET lock_timeout = '30s'")
            connection.execute(f"LOCK TABLE {partition} IN ACCESS EXCLUSIVE MODE")
            return
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM jobs_trigger")
        self.cluster.backlog("flood", tenant="flood", depth=int(self.depth_per_second * self.hold_seconds))


_NEVER = threading.Event()
