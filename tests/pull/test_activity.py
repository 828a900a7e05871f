"""The web process counts the work of pull workers that call it: at the end of its transactions, and once."""

from typing import Any

import pytest

from jobs.activity import activity
from jobs.core.activity import DURATION_BUCKETS, LAG_BUCKETS
from jobs.engine.reaper import reap_leases
from jobs.models import Trigger
from tests import factories
from tests.factories import MINUTE
from tests.interfaces.api.caller import Caller
from tests.pull.conftest import claim, claim_token, pull_job, queued

pytestmark = pytest.mark.django_db(transaction=True)


def counted() -> dict[str, int]:
    """The counts since the last call, of the one tenant and type. Lags and durations are given by their number."""
    [counts] = activity.take().values()
    plain = {kind: n for kind, n in counts.items() if not kind.startswith(("lag_", "duration_"))}
    lags, durations = (
        sum(counts.get(kind, 0) for kind in kinds) for kinds in (LAG_BUCKETS, DURATION_BUCKETS)
    )
    return plain | ({"lags": lags} if lags else {}) | ({"durations": durations} if durations else {})


@pytest.fixture
def work(tenant: Any, worker: Caller) -> dict[str, Any]:
    queued(pull_job(tenant, retry_policy={"max_attempts": 1}, timeout=10 * MINUTE))
    activity.forget()
    return claim(worker)[0]


class TestPullWorker:
    def test_is_counted_when_it_starts_and_ends(self, worker: Caller, work: dict[str, Any]) -> None:
        assert counted() == {"started": 1, "lags": 1}
        done = claim_token(work) | {"outcome": "succeeded"}
        assert worker.post("/worker/complete", done).status_code == 200
        assert counted() == {"ended_succeeded": 1, "durations": 1}
        assert worker.post("/worker/complete", done).status_code == 200
        assert activity.take() == {}

    def test_is_counted_when_it_fails(self, worker: Caller, work: dict[str, Any]) -> None:
        activity.forget()
        failed = claim_token(work) | {"outcome": "failed", "error": {"message": "no", "code": "printer_busy"}}
        assert worker.post("/worker/complete", failed).status_code == 200
        assert counted() == {"ended_failed": 1, "buried_exhausted": 1, "durations": 1}

    def test_is_counted_when_it_outstays_its_time(self, worker: Caller, work: dict[str, Any]) -> None:
        activity.forget()
        factories.set_clock(11 * MINUTE)
        try:
            # The lease was renewed meanwhile.
            Trigger.objects.filter(id=work["trigger_id"]).update(lease_expires_at=factories.now() + MINUTE)
            worker.post("/worker/heartbeat", {"triggers": [claim_token(work)]})
        finally:
            factories.set_clock(0 * MINUTE)
        assert counted() == {"ended_timed_out": 1, "buried_exhausted": 1, "durations": 1}

    def test_is_counted_as_stale_when_it_comes_too_late(self, worker: Caller, work: dict[str, Any]) -> None:
        Trigger.objects.filter(id=work["trigger_id"]).update(lease_expires_at=factories.now() - MINUTE)
        activity.forget()
        assert reap_leases(leadership=factories.ANYONE, limit=10) == 1
        assert counted() == {"ended_lost": 1, "buried_exhausted": 1}
        worker.post("/worker/complete", claim_token(work) | {"outcome": "succeeded"})
        assert counted() == {"ended_stale": 1}
