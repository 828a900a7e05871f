"""Faults of Postgres, Redis and RabbitMQ: crashed, hung, emptied, held up."""

import shutil
import signal
from contextlib import ExitStack, suppress

import psutil
import psycopg
import redis

from chaos.faults.fault import Fault
from scheduler_project.embedded import paths
from stage.processes import signalled

DEATH_SECONDS = 60.0


class PostgresCrashes(Fault):
    """``pg_ctl stop -m immediate`` or ``-m fast``, away for 15 s."""

    number, long_strikes, hold_seconds, gap_seconds, after_seconds = 5, 4, 15.0, 15.0, 30.0

    def aim(self, strike: int) -> str:
        self.mode = ("immediate", "fast")[strike % 2]
        return f"Postgres stopped -m {self.mode}, down {self.hold_seconds:g} s"

    def inject(self) -> None:
        process = self.cluster.database.server.running()
        assert process is not None
        process.send_signal(signal.SIGQUIT if self.mode == "immediate" else signal.SIGINT)
        self.cluster.must(
            "Postgres to end",
            lambda: self.cluster.database.server.running() is None or _gone(process),
            seconds=DEATH_SECONDS,
        )
        self.cluster.database.server.stop()

    def heal(self) -> None:
        self.cluster.database.server.start()


class PostgresHangs(Fault):
    """SIGSTOP to all of Postgres' processes: connected, and silent."""

    number, long_strikes, hold_seconds, gap_seconds, after_seconds = 6, 2, 20.0, 30.0, 30.0

    def aim(self, strike: int) -> str:
        return f"SIGSTOP all of Postgres for {self.hold_seconds:g} s"

    def inject(self) -> None:
        process = self.cluster.database.server.running()
        assert process is not None
        self._family = [process, *process.children(recursive=True)]
        signalled(self._family, signal.SIGSTOP)

    def heal(self) -> None:
        signalled(self._family, signal.SIGCONT)


class BrokerForgets(Fault):
    """``kill -9`` of Redis, back empty; or FLUSHALL. ``kill -9`` of RabbitMQ, back empty; or with its disk."""

    number, strikes, long_strikes, hold_seconds, gap_seconds, after_seconds = 8, 2, 4, 1.0, 20.0, 40.0

    def aim(self, strike: int) -> str:
        empties = strike % 2 == 0
        if self.cluster.broker_name == "rabbitmq":
            self.empties, self.kills = empties, True
            return f"kill -9 RabbitMQ, back {'empty' if empties else 'with its disk'}"
        self.kills = empties
        return "kill -9 Redis, back empty" if self.kills else "FLUSHALL"

    def inject(self) -> None:
        if self.cluster.broker_name == "rabbitmq":
            self.cluster.rabbitmq.kill()
            if self.empties:
                self.cluster.rabbitmq.forget()
            return
        server = self.cluster.redis
        if not self.kills:
            with redis.Redis.from_url(paths.embedded_redis_url(self.cluster.home)) as client:
                client.flushall()
            return
        process = server.running()
        assert process is not None
        process.kill()
        server.stop()
        shutil.rmtree(server.directory / "appendonlydir", ignore_errors=True)
        for leftover in [*server.directory.glob("*.aof"), *server.directory.glob("*.rdb")]:
            leftover.unlink()

    def heal(self) -> None:
        if self.cluster.broker_name == "rabbitmq":
            self.cluster.rabbitmq.start()
        else:
            self.cluster.redis.start()


class SlowDatabase(Fault):
    """Another client's lock on the triggers, an idle transaction that holds a snapshot, or every connection taken."""

    number, long_strikes, gap_seconds, after_seconds = 12, 3, 20.0, 30.0
    hold_seconds = 20.0

    def aim(self, strike: int) -> str:
        self.mode = ("lock", "connections", "idle")[strike % 3]
        self._held = ExitStack()
        what = {
            "lock": "ACCESS EXCLUSIVE lock on the triggers",
            "connections": "every connection taken",
            "idle": "an idle transaction",
        }[self.mode]
        return f"{what} for {self.hold_seconds:g} s"

    def inject(self) -> None:
        if self.mode == "connections":
            self._take_all()
            return
        connection = self._connect(autocommit=False)
        if self.mode == "lock":
            connection.execute("SET lock_timeout = '30s'")
            connection.execute("LOCK TABLE jobs_trigger IN ACCESS EXCLUSIVE MODE")
        else:
            connection.execute("SELECT count(*) FROM jobs_trigger")

    def heal(self) -> None:
        self._held.close()

    def _take_all(self) -> None:
        """Take the connections that are free now, and no more: those in use stay in use."""
        with suppress(psycopg.OperationalError):
            while True:
                self._connect(autocommit=True)

    def _connect(self, *, autocommit: bool) -> psycopg.Connection:
        connection = psycopg.connect(self.cluster.database.url, autocommit=autocommit, connect_timeout=5)
        self._held.callback(connection.close)
        return connection


def _gone(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True
