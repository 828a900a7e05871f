"""History: the same load on an empty ledger, and on one with millions of ended triggers and their attempts.

The peer is Carillon itself without a past. The history is as old as retention allows, spread over its weeks, and of
jobs that stay registered. It is analyzed before each measurement.
"""

from datetime import timedelta

from psycopg import sql

from benchmarks import carillon
from benchmarks.carillon.rows import grow
from benchmarks.load import COLUMNS, PER_SECOND, Figures, carry
from benchmarks.report import Report
from benchmarks.stage import Stage

SIZES = (0, 1_000_000, 10_000_000)
JOBS = 10_000
DAYS = 80
EVERY, FIRST_IN = timedelta(days=365), timedelta(days=2)
#: Attempts are partitioned by week, and a ledger that grew by itself has all these partitions.
_PARTITIONS = """
    DO $$ DECLARE monday timestamptz; BEGIN
        FOR week IN 1..13 LOOP
            monday := date_trunc('week', now(), 'UTC') - week * interval '7 days';
            EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF jobs_attempt FOR VALUES FROM (%L) TO (%L)',
                'jobs_attempt_' || to_char(monday AT TIME ZONE 'UTC', 'YYYYMMDD'), monday, monday + interval '7 days');
        END LOOP;
    END $$
"""


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks history and the load."""
    sizes = [int(size * scale) for size in SIZES]
    stage.empty()
    carillon.make_tenant(carillon.TENANT)
    carillon.add_fleet(stage, max(100, int(JOBS * scale)), every=EVERY, first_in=FIRST_IN)
    found: dict[int, Figures] = {}
    written = 0
    for size in sizes:
        if size > written:
            write_history(stage, size - written, skip=written)
            written = size
        stage.say(f"{size:,} ended triggers: analyzing")
        stage.settle()
        found[size] = carry(stage, what=f"{size:,} ended triggers", scale=scale)
    least, most = found[sizes[0]], found[sizes[-1]]
    return Report(
        name="history",
        title=f"The same load without and with history; lag at {PER_SECOND} firings a second",
        unit=f"triggers per second with {sizes[-1]:,} ended triggers; peer: with none",
        ours=most.rate,
        peer=least.rate,
        ratio=most.rate / least.rate,
        columns=COLUMNS,
        rows=tuple(figures.row(f"{size:,} ended triggers") for size, figures in found.items()),
        more={
            "slowdown": round(least.rate / most.rate, 2),
            "turn_ratio": round(most.turn_p50 / least.turn_p50, 2),
            "by_size": {str(size): figures.json() for size, figures in found.items()},
        },
    )


def write_history(stage: Stage, count: int, *, skip: int) -> None:
    """Add ``count`` ended triggers, each with its attempt, evenly over the days; ``skip`` are there already."""
    from jobs.models import Attempt, Trigger

    stage.db.execute(_PARTITIONS)
    jobs = _number_jobs(stage)
    base = stage.value(
        "SELECT date_trunc('second', clock_timestamp()) - %(days)s * interval '1 day'", days=DAYS
    )
    past = sql.SQL(
        "JOIN bench_job j ON j.number = n % {jobs} CROSS JOIN LATERAL (SELECT {base}::timestamptz"
        # A job fires once at an instant: each call has a microsecond of its own.
        " + n * (interval '1 day' * {days} / {count}) + {skip} * interval '1 microsecond' AS at) m"
    ).format(jobs=jobs, base=base, days=DAYS, count=count, skip=skip % 999_983)
    source, trigger_id = past.as_string(stage.db), _id_at("8", skip)
    soon = sql.SQL("m.at + interval '20 milliseconds'")
    ended = {
        "state": "succeeded",
        "started_at": soon,
        "finished_at": sql.SQL("m.at + interval '30 milliseconds'"),
    }
    grow(
        stage,
        Trigger,
        count,
        what="writing ended triggers",
        source=source,
        **ended,
        id=trigger_id,
        job=sql.SQL("j.id"),
        tenant=sql.SQL("j.tenant_id"),
        job_type="noop",
        job_version=1,
        scheduled_for=sql.SQL("m.at"),
        due_at=sql.SQL("m.at"),
        priority=2,
        idempotency_key=sql.SQL("'job:' || j.id || ':scheduled_for:' || m.at"),
        fence=1,
        attempt_count=1,
        worker="celery@bench",
        created_at=sql.SQL("m.at"),
        queued_at=sql.SQL("m.at"),
    )
    grow(
        stage,
        Attempt,
        count,
        what="writing their attempts",
        source=source,
        **ended,
        id=_id_at("9", skip),
        trigger=trigger_id,
        job_id=sql.SQL("j.id"),
        tenant_id=sql.SQL("j.tenant_id"),
        number=1,
        fence=1,
        worker="celery@bench",
        duration=timedelta(milliseconds=10),
    )


def _number_jobs(stage: Stage) -> int:
    """Number the registered jobs in ``bench_job``. Returns how many there are."""
    stage.db.execute("DROP TABLE IF EXISTS bench_job")
    stage.db.execute(
        "CREATE UNLOGGED TABLE bench_job AS SELECT row_number() OVER () - 1 AS number, id, tenant_id "
        "FROM jobs_job WHERE status = 'active' AND next_fire_at IS NOT NULL"
    )
    stage.db.execute("ALTER TABLE bench_job ADD PRIMARY KEY (number)")
    return int(stage.value("SELECT count(*) FROM bench_job"))


def _id_at(variant: str, skip: int) -> sql.Composed:
    """A UUIDv7 of the row's instant and number, so that a trigger and its attempt can name each other."""
    return sql.SQL(
        "(lpad(to_hex((extract(epoch FROM m.at) * 1000)::bigint), 12, '0') || '7000' || {}"
        " || lpad(to_hex({}::bigint + n), 15, '0'))::uuid"
    ).format(variant, skip)
