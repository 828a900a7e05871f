"""Jobs that keep a list of their work, and the ledger checked against arithmetic and against that list."""

from datetime import datetime, timedelta

from stage.waiting import wait_until
from tests.cluster.stage import Stage

JOBS = 24
Periods = dict[str, tuple[datetime, timedelta]]
#: The tables that `tests.cluster.recording` writes to. They stand here, since importing that module would register its
#: type in this process.
TABLES = (
    "CREATE TABLE started (trigger_id uuid, fence int) ;"
    "CREATE TABLE made (trigger_id uuid, attempt_number int)"
)
LEDGER = (
    "SELECT job_id::text, scheduled_for, state, id::text, attempt_count FROM jobs_trigger "
    "WHERE origin = 'schedule'"
)
OFTEN = {"overlap_policy": "allow", "max_concurrent": 100_000, "misfire_policy": "fire_all"}
FLOOD = """
INSERT INTO jobs_trigger (id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason,
    held, priority, idempotency_key, fence, attempt_count, budget_start, crash_count, replay_count, worker,
    cancel_requested, created_at)
SELECT gen_random_uuid(), j.id, j.tenant_id, j.job_type, j.version, 'run_now', now() - n * interval '1 us', now(),
    'pending', '', false, 3, j.id || ':' || n, 0, 0, 0, 0, 0, '', false, now()
FROM jobs_job j, generate_series(1, {number}) n WHERE j.id = '{job_id}'
"""


def create_tenant(stage: Stage) -> str:
    """A tenant that may have everything in flight. Returns its key."""
    key = stage.create_tenant()
    stage.execute("UPDATE tenants_tenant SET max_in_flight = 100000")
    return key


def create_jobs(stage: Stage, key: str, **payload: object) -> Periods:
    """Jobs that fire every second or two. Returns each one's creation and period, as they were acknowledged."""
    periods = {}
    for number in range(JOBS):
        every = 1 + number % 2
        body = {
            "name": f"job-{number}",
            "job_type": "recording",
            "schedule": {"type": "interval", "every_seconds": every},
            # Some fail first, so that a beat has a retry to be woken for.
            "payload": {"fails_first": number % 4 == 0, **payload},
            "retry_policy": {"backoff": "fixed", "initial_delay_seconds": 0.1, "jitter": "none"},
            **OFTEN,
        }
        job = stage.call("POST", "/jobs", key=key, body=body)
        periods[job["id"]] = (datetime.fromisoformat(job["created_at"]), timedelta(seconds=every))
    return periods


def create_flood(stage: Stage, key: str, number: int, **payload: object) -> str:
    """``number`` firings of one job, all due now. Returns the job's id."""
    body = {
        "name": "flood",
        "job_type": "recording",
        "schedule": {"type": "once", "run_at": "2099-01-01T00:00:00Z"},
        "payload": payload,
        # A crash is charged to a trigger that was claimed alone; no trigger here may be buried for that.
        "retry_policy": {
            "max_attempts": 50,
            "backoff": "fixed",
            "initial_delay_seconds": 0.1,
            "jitter": "none",
        },
        **OFTEN,
    }
    job_id = stage.call("POST", "/jobs", key=key, body=body)["id"]
    stage.execute(FLOOD.format(number=number, job_id=job_id))
    return job_id


def firings(periods: Periods, until: datetime) -> set[tuple[str, datetime]]:
    """The firings that the schedules name up to ``until``, by arithmetic alone."""
    return {
        (job_id, created_at + every * k)
        for job_id, (created_at, every) in periods.items()
        for k in range(1, int((until - created_at) / every) + 1)
    }


def judge(stage: Stage, periods: Periods, *, within: float = 60) -> str:
    """Every firing due by now succeeds, none is doubled or made up, each effect is made once. Returns the figures."""
    [(horizon,)] = stage.query("SELECT clock_timestamp()")
    expected = firings(periods, horizon)

    def unfinished() -> set[tuple[str, datetime]]:
        return expected - {
            (job_id, at) for job_id, at, state, *_ in stage.query(LEDGER) if state == "succeeded"
        }

    wait_until(lambda: not unfinished(), timeout=within, what="every firing to succeed")
    rows = [row for row in stage.query(LEDGER) if row[1] <= horizon]
    found = sorted((job_id, at) for job_id, at, *_ in rows)
    assert found == sorted(expected)  # none lost, doubled or made up
    return judge_effects(stage, {trigger_id for _, _, _, trigger_id, _ in rows})


def judge_effects(stage: Stage, ours: set[str]) -> str:
    """Each of these triggers was started once a fence, each start is on record, and each effect was made once."""
    started = [row for row in stage.query("SELECT trigger_id::text, fence FROM started") if row[0] in ours]
    assert len(set(started)) == len(started), "started twice under one fence"
    # Every start has its attempt, so a trigger that was started again was lost or failed before, and its attempt says
    # so.
    attempts = set(stage.query("SELECT trigger_id::text, fence FROM jobs_attempt"))
    assert set(started) <= attempts

    made = [trigger_id for (trigger_id,) in stage.query("SELECT trigger_id::text FROM made")]
    assert len(set(made)) == len(made), "an effect was made twice"
    assert ours <= set(made)
    prevented = stage.query("SELECT coalesce(sum(duplicates), 0) FROM jobs_effect")[0][0]
    return f"{len(ours)} firings, {len(started) - len(ours)} started again, {prevented} effects prevented"


def judge_flood(stage: Stage, job_id: str, *, within: float) -> str:
    """Each firing of the flood ends, once, as succeeded, and its effect was made once. Returns the figures."""
    unended = f"SELECT count(*) FROM jobs_trigger WHERE job_id = '{job_id}' AND state <> 'succeeded'"
    wait_until(
        lambda: stage.query(unended) == [(0,)], timeout=within, what="every firing of the flood to succeed"
    )
    succeeded = stage.query(
        "SELECT trigger_id::text, count(*) FILTER (WHERE state = 'succeeded') FROM jobs_attempt "
        f"WHERE job_id = '{job_id}' GROUP BY trigger_id"
    )
    assert {count for _, count in succeeded} == {1}, "an end that is not one"
    return judge_effects(stage, {trigger_id for trigger_id, _ in succeeded})
