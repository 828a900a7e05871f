"""A leader whose workers take no time: ``python -m benchmarks.carillon.leader`` leads until SIGTERM.

It runs a ``Cycle`` as ``celery beat`` makes it, with one difference: it does not publish to a broker, but to a
statement that ends the queued triggers at once, on a connection of its own. The time of that statement is kept apart
from the leader's own time. On SIGTERM the leader ends its turn, or breaks it off after some seconds, and prints a JSON
line with every turn.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any

import django
import psutil

from benchmarks.stage import BenchError, ManagedProcess, Stage

ARGV = ("-m", "benchmarks.carillon.leader")
#: Tells the process not to sleep while anything is due: as if every end of a trigger woke it.
EAGER = {"BENCH_LEADER_EAGER": "1"}
#: The last turn has this long to end.
STOP_SECONDS = 6.0
_LEADS = "SELECT EXISTS (SELECT 1 FROM jobs_lease WHERE holder <> '' AND expires_at > clock_timestamp())"
#: Claiming and finishing write more than this; the rest is the workers' and is not measured. ``CASE`` keeps the planner
#: from reading all queued triggers to find a hundred.
_WORK = """
    UPDATE jobs_trigger SET state = 'succeeded', attempt_count = attempt_count + 1,
           started_at = statement_timestamp(), finished_at = clock_timestamp()
    WHERE id = ANY(%(ids)s::uuid[]) AND CASE state WHEN 'queued' THEN true END
"""


@dataclass(frozen=True)
class Turn:
    """One turn of the leader.

    When it began and ended (seconds of one clock), the workers' part of that time (seconds), how many triggers it
    published, whether it led and came to its end, and the CPU seconds that it took (its own and its server process').
    """

    began: float
    ended: float
    working: float
    dispatched: int
    led: bool
    cpu: float = 0.0

    @property
    def seconds(self) -> float:
        """The leader's own seconds."""
        return self.ended - self.began - self.working

    @property
    def ms(self) -> float:
        return 1000 * self.seconds


class Record:
    """The turns of a leader, which can be read once it has been stopped."""

    def __init__(self, leader: ManagedProcess) -> None:
        self._leader = leader

    def turns(self) -> list[Turn]:
        """Every turn in order. Raises ``BenchError`` when the leader printed none."""
        lines = self._leader.log.read_text().splitlines()
        if not lines or not lines[-1].startswith("[["):
            raise BenchError(f"the leader told nothing of its turns:\n{''.join(lines[-20:])}")
        return [Turn(*turn) for turn in json.loads(lines[-1])]


@contextmanager
def leading(stage: Stage, *, environment: Mapping[str, str] | None = None) -> Iterator[Record]:
    """A leader on the data that is stored, for the length of the block. Its record can be read after the block."""
    with stage.actor("leader", ARGV, environment=environment) as leader:
        stage.must("a leader takes the lead", lambda: bool(stage.value(_LEADS)))
        yield Record(leader)


def rate(turns: Sequence[Turn]) -> float:
    """Triggers dispatched in each second of the leader's own: neither the workers' time nor its sleep counts."""
    return sum(turn.dispatched for turn in turns) / max(1e-9, sum(turn.seconds for turn in turns))


def cpu_rate(turns: Sequence[Turn]) -> float:
    """Triggers dispatched in each CPU second; a busy machine does not make CPU seconds longer."""
    return sum(turn.dispatched for turn in turns) / max(1e-9, sum(turn.cpu for turn in turns))


def failed(turns: Sequence[Turn]) -> int:
    """How many turns did not come to their end. No other process leads, so none of them was a standby's turn."""
    return sum(not turn.led for turn in turns)


class _Workers:
    """Ends every published trigger. Counts the triggers, and the time that this took, until asked."""

    def __init__(self, cursor: Any) -> None:
        cursor.execute("SET synchronous_commit = off")
        self._cursor = cursor
        self._count, self._seconds = 0, 0.0
        self.cpu = 0.0

    def __call__(self, messages: Sequence[Any]) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        ids = [token.id for message in messages for token in message.tokens]
        self._cursor.execute(_WORK, {"ids": ids})
        self._count += self._cursor.rowcount
        self._seconds += time.perf_counter() - began
        self.cpu += time.process_time() - cpu

    def take(self) -> tuple[int, float]:
        """How many triggers were ended since the last call, and the seconds that this took."""
        done, self._count, self._seconds = (self._count, self._seconds), 0, 0.0
        return done


class _Cpu:
    """The CPU seconds of this process without those of its workers, and of the server process of its connection."""

    def __init__(self, connection: Any, workers: _Workers) -> None:
        self._connection, self._workers = connection, workers
        self._server: psutil.Process | None = None
        self._of_server, self._before = 0.0, time.process_time()

    def take(self) -> float:
        """The CPU seconds used since the last call."""
        link = self._connection.connection
        pid = None if link is None or link.closed else link.info.backend_pid
        served = 0.0
        if pid is not None:
            if self._server is None or self._server.pid != pid:
                self._server, self._of_server = psutil.Process(pid), 0.0
            times = self._server.cpu_times()
            served, self._of_server = times.user + times.system - self._of_server, times.user + times.system
        own = time.process_time() - self._workers.cpu
        used, self._before = own - self._before, own
        return used + served


class _EnoughError(BaseException):
    """Ends a turn that would go on long after the leader was told to stop; no code may mistake it for a failed step."""


def _stop(stopping: list[int], number: int) -> None:
    stopping.append(number)
    signal.setitimer(signal.ITIMER_REAL, STOP_SECONDS)


def _interrupt(*_: object) -> None:
    raise _EnoughError


def lead(*, eager: bool) -> list[Turn]:
    """Lead until SIGTERM. ``eager``: do not sleep while more is dispatched."""
    django.setup()
    from django.db import connection

    from jobs.conf import engine_settings
    from jobs.engine.beat import served_types
    from jobs.engine.cycle import Cycle
    from jobs.store import db

    db.keep_plans()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: _stop(stopping, number))
    signal.signal(signal.SIGALRM, _interrupt)
    workers = _Workers(connection.copy().cursor())
    cycle = Cycle(settings=engine_settings(), configs=served_types, publish=workers, abreast=True)
    cpu = _Cpu(connection, workers)
    turns: list[Turn] = []
    while not stopping:
        began, seconds, led = time.monotonic(), 0.0, False
        try:
            seconds = cycle.tick()
            led = cycle.leading
        except _EnoughError:
            pass  # The turn counts as failed; the database lets the lease expire by itself.
        dispatched, working = workers.take()
        turns.append(Turn(began, time.monotonic(), working, dispatched, led, cpu.take()))
        if not (stopping or (eager and dispatched)):
            time.sleep(seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if turns[-1].led:
        cycle.close()
    return turns


if __name__ == "__main__":
    found = lead(eager="BENCH_LEADER_EAGER" in os.environ)
    sys.stdout.flush()
    print(json.dumps([astuple(turn) for turn in found]))
