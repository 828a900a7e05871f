"""``traceparent`` of a call: kept with every trigger that the call asks for, and with no other."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from jobs.actions import jobs as actions
from jobs.actions.bulk.operations import advance
from jobs.engine.firing.catchup import CatchUps
from jobs.engine.firing.pace import Pace
from jobs.models import Job, Trigger
from jobs.selection.walks import select
from jobs.telemetry import callers_trace
from tests.factories import ANYONE, make_job, make_trigger, owing
from tests.interfaces.api.caller import Caller, noop_job
from tests.interfaces.api.test_backfills import STRETCH

pytestmark = pytest.mark.django_db
Lines = Callable[[], list[dict[str, Any]]]
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"
TRACED = {"traceparent": TRACEPARENT}
IMMEDIATE = {"job_type": "noop", "schedule": {"type": "immediate"}}


def kept(**which: Any) -> list[str | None]:
    return list(Trigger.objects.filter(**which).order_by("id").values_list("trace", flat=True))


class TestATrigger:
    def test_of_an_immediate_job_keeps_it(self, owner: Caller) -> None:
        job = owner.post("/jobs", IMMEDIATE, **TRACED).json()
        assert kept(job_id=job["id"]) == [TRACEPARENT]

    def test_of_immediate_jobs_created_at_once_keeps_it(self, owner: Caller) -> None:
        owner.post("/jobs/bulk", {"jobs": [IMMEDIATE, IMMEDIATE, noop_job()]}, **TRACED)
        assert kept() == [TRACEPARENT, TRACEPARENT]

    def test_of_a_run_now_keeps_it_with_the_tracestate(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        owner.post(f"/jobs/{job.id}/run", **TRACED, tracestate="congo=t61rcWkgMzE, rojo=1")
        assert kept() == [f"{TRACEPARENT} congo=t61rcWkgMzE,rojo=1"]

    def test_tells_its_id(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        traced = owner.post(f"/jobs/{job.id}/run", **TRACED).json()["id"]
        untraced = owner.post(f"/jobs/{job.id}/run").json()["id"]
        told = [owner.get(f"/triggers/{one}").json()["trace_id"] for one in (traced, untraced)]
        assert told == [TRACE_ID, None]

    def test_that_is_replayed_is_part_of_the_replays(self, owner: Caller) -> None:
        of_another = TRACEPARENT.replace("0af", "1af")
        trigger = make_trigger(make_job(owner.tenant), "dead", trace=of_another)
        owner.post(f"/triggers/{trigger.id}/replay", **TRACED)
        assert kept() == [TRACEPARENT]
        Trigger.objects.update(state="dead", reason="exhausted", finished_at=trigger.finished_at)
        owner.post(f"/triggers/{trigger.id}/replay")
        assert kept() == [None]

    def test_that_an_operation_replays_is_part_of_the_operations(self, owner: Caller) -> None:
        trigger = make_trigger(make_job(owner.tenant), "dead")
        asked = {"verb": "replay", "filter": {"state": "dead"}}
        assert owner.post("/operations", asked, **TRACED).status_code == 202
        while advance(select):
            pass
        assert Trigger.objects.get(id=trigger.id).state == "pending"
        assert (kept(), callers_trace()) == ([TRACEPARENT], None)

    def test_of_a_backfill_keeps_it(self, owner: Caller) -> None:
        cron = {"schedule_type": "cron", "cron_expression": "*/10 * * * *", "interval": None}
        job = make_job(owner.tenant, **cron)
        owner.post(f"/jobs/{job.id}/backfill", STRETCH, **TRACED)
        CatchUps(pace=Pace(monotonic=lambda: 1.0)).step(leadership=ANYONE, budget=timedelta(seconds=30))
        assert set(kept(origin="backfill")) == {TRACEPARENT}

    def test_that_the_schedule_made_has_none(self, owner: Caller) -> None:
        """Although the call puts it on record."""
        job = make_job(owner.tenant, **owing(2))
        assert (
            owner.patch(f"/jobs/{job.id}", {"schedule": {"every_seconds": 300}}, **TRACED).status_code == 200
        )
        owner.post(f"/jobs/{job.id}/pause", **TRACED)
        assert set(kept()) <= {None}
        assert not Job.objects.filter(next_fire_at__isnull=False, status="active").exists()


class TestACallersTrace:
    @pytest.mark.parametrize(
        "given", ["", "garbage", TRACEPARENT.upper(), TRACEPARENT + "-x", f"{TRACEPARENT},{TRACEPARENT}"]
    )
    def test_that_is_malformed_counts_as_none(self, owner: Caller, given: str) -> None:
        answer = owner.post("/jobs", IMMEDIATE, traceparent=given)
        assert answer.status_code == 201
        assert kept() == [None]

    def test_is_not_that_of_the_next_call(self, owner: Caller) -> None:
        owner.post("/jobs", IMMEDIATE, **TRACED)
        assert callers_trace() is None
        owner.post("/jobs", IMMEDIATE)
        assert kept() == [TRACEPARENT, None]

    def test_is_named_by_the_lines_of_the_call(self, owner: Caller, lines: Lines) -> None:
        with patch.object(actions, "create_job", side_effect=RuntimeError("broken")):
            owner.post("/jobs", noop_job(), **TRACED)
        [line] = [line for line in lines() if line["logger"] == "django.request"]
        assert line["trace_id"] == TRACE_ID
