"""A trigger that kills its process is stopped; triggers that were claimed with it are unharmed and not charged."""

import json
from collections import Counter

import pytest
from psycopg import sql

from stage.waiting import wait_until
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
#: So many due at once travel in batches, one for each way to die.
FIRINGS = 400
ENVIRONMENT = {
    "CARILLON_HANDLER_MODULES": "tests.cluster.poison",
    "CARILLON_WORKER_LEASE_SECONDS": "3",
    "CARILLON_QUEUE_WINDOW_MIN": str(FIRINGS),
    "CARILLON_QUEUE_WINDOW_INITIAL": str(FIRINGS),
    "CARILLON_QUEUE_WINDOW_MAX": str(FIRINGS),
}
#: Position among the firings -> how the handler there dies.
SERIAL = {37: "segfault", 150: "exit", 299: "oom"}
AT_ONCE = {250: "segfault"}
ONCE = {5: "segfault"}
#: All due in one instant, each a run of its own with its own payload.
FIRE = """
INSERT INTO jobs_trigger (id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason,
    held, priority, payload, idempotency_key, fence, attempt_count, budget_start, crash_count, replay_count, worker,
    cancel_requested, created_at)
SELECT gen_random_uuid(), j.id, j.tenant_id, j.job_type, j.version, 'run_now', now() - n * interval '1 us',
    now() - (1000 - n) * interval '1 us', 'pending', '', false, j.priority, {payloads}::jsonb -> n, j.id || ':' || n,
    0, 0, 0, 0, 0, '', false, now()
FROM jobs_job j, generate_series(0, {last}) n WHERE j.id = {job_id} RETURNING id
"""


def fire(stage: Stage, key: str, deaths: dict[int, str], *, firings: int, **definition: str) -> str:
    """A job with ``firings`` firings that are due at once. Returns its id."""
    body = {
        "name": f"{definition['job_type']}-{definition.get('delivery', '')}",
        "schedule": {"type": "once", "run_at": "2099-01-01T00:00:00Z"},
        "overlap_policy": "allow",
        "max_concurrent": firings,
        "payload": {},
        **definition,
    }
    job_id = stage.call("POST", "/jobs", key=key, body=body)["id"]
    payloads = json.dumps([{"dies_by": deaths[n]} if n in deaths else {} for n in range(firings)])
    with_values = sql.SQL(FIRE).format(
        payloads=sql.Literal(payloads), last=sql.Literal(firings - 1), job_id=sql.Literal(job_id)
    )
    assert len(stage.query(with_values)) == firings
    return job_id


def ledger(stage: Stage, job_id: str) -> list[tuple[bool, str, int, int]]:
    """For each firing: whether it kills, its end, the crashes it was charged for, and its attempts."""
    return stage.query(
        "SELECT payload ? 'dies_by', state || ': ' || reason, crash_count, attempt_count "
        f"FROM jobs_trigger WHERE job_id = '{job_id}'"
    )


def in_hand(stage: Stage, job_id: str) -> set[tuple[int, ...]]:
    """For each trigger that kills: how many others its worker had claimed with it, attempt by attempt."""
    rows = stage.query(
        "SELECT array_agg(a.claimed_with ORDER BY a.number) FROM jobs_attempt a JOIN jobs_trigger t "
        f"ON t.id = a.trigger_id WHERE t.job_id = '{job_id}' AND payload ? 'dies_by' GROUP BY t.id"
    )
    return {tuple(claimed_with) for (claimed_with,) in rows}


class TestPoison:
    def test_ends_dead_and_spares_its_batch(self) -> None:
        with Stage(beats=1, workers=1, **ENVIRONMENT) as stage:
            key = stage.create_tenant()
            stage.manage("update_tenant", "acme", "--max-in-flight", str(10 * FIRINGS))
            serial = fire(stage, key, SERIAL, firings=FIRINGS, job_type="poison.serial")
            at_once = fire(stage, key, AT_ONCE, firings=FIRINGS, job_type="poison.at_once")

            def ended(job_id: str) -> bool:
                return all(end.split(":")[0] in ("succeeded", "dead") for _, end, *_ in ledger(stage, job_id))

            for job_id, deaths in ((serial, SERIAL), (at_once, AT_ONCE)):
                wait_until(lambda job_id=job_id: ended(job_id), timeout=90, what="all firings to end")
                fates = Counter((kills, end, crashes) for kills, end, crashes, _ in ledger(stage, job_id))
                # An asynchronous handler whose message held it alone may linger in the process that dies, and is
                # charged once; as a suspect, it has a process to itself.
                charged = fates.pop((False, "succeeded: ", 1), 0) if job_id == at_once else 0
                assert fates == {
                    (False, "succeeded: ", 0): FIRINGS - len(deaths) - charged,
                    (True, "dead: poison", 3): len(deaths),
                }
                # Once in a batch, where no trigger can be charged, then alone until the third crash.
                for others, *later in in_hand(stage, job_id):
                    assert others > 0
                    assert later == [0, 0, 0]

            # A trigger that may be started once only travels alone, so that no trigger is lost that had not been
            # started. Fired last: handlers of the others that linger in its process would end it, too.
            once = fire(stage, key, ONCE, firings=20, job_type="poison.serial", delivery="at_most_once")
            wait_until(lambda: ended(once), timeout=30, what="all firings to end")
            assert Counter(ledger(stage, once)) == {
                (False, "succeeded: ", 0, 1): 19,
                (True, "dead: lost", 1, 1): 1,
            }
