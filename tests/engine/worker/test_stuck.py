"""Handlers that nothing can interrupt: they cost their process, but they cost no other trigger an attempt."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection

from jobs.models import Trigger
from stage import waiting
from tests.engine.conftest import queued
from tests.engine.worker.conftest import charged, ended
from tests.factories import row, state_of

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[3]
STUCK = """
import json, signal, sys, time
import django; django.setup()
from uuid import UUID
from jobs.engine import worker
from jobs.engine.worker.leases import renewer
from jobs.handlers import job_type
from jobs.models import Trigger
from jobs.store.execution import ClaimToken

renewer.NOTICE_SECONDS = 0.2
worker.be_expendable()

@job_type("test.stuck", batch_size=3)
def stuck(ctx, payload):
    if payload.get("cancelled"):
        Trigger.objects.filter(id=ctx.trigger_id).update(cancel_requested=True, cancel_reason="superseded")
    if payload["stuck"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        time.sleep(60)

@job_type("test.blocks", batch_size=3)
async def blocks(ctx, payload):
    if payload["stuck"]:
        while True:
            pass
    import asyncio
    await asyncio.Event().wait()

tokens = [ClaimToken(UUID(trigger_id), fence) for trigger_id, fence in json.loads(sys.argv[2])]
worker.perform(job_type=sys.argv[1], tokens=tokens, worker="w1", celery_task_id="c")
worker.wait_for_the_rest()
"""


def perform_until_given_up(*triggers: Trigger) -> None:
    """Perform in a process of its own, which must end itself."""
    of = connection.settings_dict
    user, host = quote(of["USER"] or ""), quote(of["HOST"] or "", safe="")
    password = f":{quote(of['PASSWORD'])}" if of["PASSWORD"] else ""
    url = f"postgresql://{user}{password}@/{of['NAME']}?host={host}" + (
        f"&port={of['PORT']}" if of["PORT"] else ""
    )
    messages = json.dumps([[str(trigger.id), trigger.fence] for trigger in triggers])
    ended_process = subprocess.run(
        [sys.executable, "-c", STUCK, triggers[0].job_type, messages],
        cwd=ROOT,
        env=os.environ
        | {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
            "CARILLON_STOP_GRACE_SECONDS": "0.1",
            "CARILLON_WORKER_LEASE_SECONDS": "3",
        },
        capture_output=True,
        timeout=30 * waiting.patience,
        check=False,
    )
    assert ended_process.returncode == 70, ended_process.stderr.decode()[-2000:]


@pytest.mark.slow
class TestStuckHandler:
    def test_costs_its_process_but_not_its_batch(self) -> None:
        triggers = [
            queued("test.stuck", payload={"stuck": stuck}, timeout=timedelta(milliseconds=200))
            for stuck in (False, True, False)
        ]
        perform_until_given_up(*triggers)
        assert ended(triggers[1]) == ("retrying", "timed_out", "timeout")
        assert charged(triggers[1]) == (1, 0, True)
        # In the batch's order: a claim may return its rows in any order.
        for other in (triggers[0], triggers[2]):
            untried = ended(other) == ("retrying", "lost", "batch_abandoned")
            assert untried or ended(other) == ("succeeded", "succeeded", "")
            assert charged(other) == (0, int(untried), False)
        assert row(triggers[1])["lease_expires_at"] is None

    def test_that_does_not_heed_a_cancel_ends_cancelled_and_costs_its_batch_nothing(self) -> None:
        triggers = [
            queued("test.stuck", payload={"stuck": cancelled, "cancelled": cancelled})
            for cancelled in (False, True, False)
        ]
        perform_until_given_up(*triggers)
        assert ended(triggers[1]) == ("cancelled", "cancelled", "cancelled")
        assert state_of(triggers[1]) == ("cancelled", "superseded")
        for other in (triggers[0], triggers[2]):
            untried = ended(other) == ("retrying", "lost", "batch_abandoned")
            assert untried or ended(other) == ("succeeded", "succeeded", "")
            assert charged(other) == (0, int(untried), False)

    def test_that_gave_up_its_third_process_is_poison(self) -> None:
        trigger = queued(
            "test.stuck", payload={"stuck": True}, timeout=timedelta(milliseconds=200), crash_count=2
        )
        perform_until_given_up(trigger)
        assert state_of(trigger) == ("dead", "poison")

    def test_that_blocks_the_event_loop_is_one_of_several_that_may_have(self) -> None:
        triggers = [
            queued("test.blocks", payload={"stuck": stuck}, timeout=timedelta(seconds=1))
            for stuck in (False, True, False)
        ]
        perform_until_given_up(*triggers)
        assert {ended(trigger) for trigger in triggers} == {("retrying", "lost", "batch_abandoned")}
        assert {charged(trigger) for trigger in triggers} == {(0, 1, True)}

    def test_that_blocks_the_event_loop_alone_is_charged(self) -> None:
        trigger = queued("test.blocks", payload={"stuck": True}, timeout=timedelta(milliseconds=200))
        perform_until_given_up(trigger)
        assert ended(trigger) == ("retrying", "timed_out", "timeout")
        assert charged(trigger) == (1, 0, True)
