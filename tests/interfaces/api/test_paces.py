"""Operations with a pace by the database's clock (``per_second``), ``pause``, ``resume``; and those that cancel."""

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.actions.bulk import operations
from jobs.actions.bulk.runner import IDLE_SECONDS, PACED_SECONDS, Runner
from jobs.models import Change, Job, Operation, Trigger
from jobs.selection.walks import select
from tests.factories import HOUR, make_job, make_trigger, make_triggers, now, row, states
from tests.interfaces.api.caller import Caller, faulty_fields

Clock = Callable[[timedelta], None]


def begin(caller: Caller, verb: str, wanted: Any = None, **how: Any) -> str:
    answer = caller.post("/operations", {"verb": verb, "filter": wanted or {}, **how})
    assert answer.status_code == 202, answer.content
    return str(answer.json()["id"])


def shown(caller: Caller, operation: str) -> dict[str, Any]:
    found: dict[str, Any] = caller.get(f"/operations/{operation}").json()
    return found


def replayed() -> int:
    return Trigger.objects.filter(replay_count=1).count()


@pytest.fixture
def dead(owner: Caller) -> list[Trigger]:
    return make_triggers(make_job(owner.tenant), 60, state="dead", reason="lost")


class TestAPace:
    def test_is_kept_by_the_databases_clock(self, owner: Caller, dead: list[Trigger], clock: Clock) -> None:
        rate, shift, sure = 8, 0.0, 0.0
        operation = begin(owner, "replay", per_second=rate)
        since = Operation.objects.get().created_at
        before: datetime = since
        for _ in range(12):
            runner_began = now()
            Runner(select).turn()
            # Never an item more than the pace lets through. And no fewer than it lets through, unless this test was
            # held up.
            assert replayed() <= rate * (now() - since).total_seconds() + 1
            sure += min(1.0, max(0.0, (runner_began - before).total_seconds()))
            assert replayed() >= math.floor(rate * sure) - 1
            before = now()
            shift += 0.4
            clock(timedelta(seconds=shift))
        assert shown(owner, operation)["done"] == replayed() > 20

    def test_goes_on_without_a_burst_after_a_stop(
        self, owner: Caller, dead: list[Trigger], clock: Clock
    ) -> None:
        """No beat lived for an hour, or the operation was paused for one: it makes up for one second, and no more."""
        operation = begin(owner, "replay", per_second=5)
        Runner(select).turn()
        first = replayed()
        assert 1 <= first <= 6
        clock(HOUR)
        Runner(select).turn()
        assert replayed() == first + 6
        owner.post(f"/operations/{operation}/pause")
        clock(2 * HOUR)
        owner.post(f"/operations/{operation}/resume")
        Runner(select).turn()
        assert replayed() == first + 12

    def test_is_not_held_up_by_a_clock_that_goes_back(
        self, owner: Caller, dead: list[Trigger], clock: Clock
    ) -> None:
        begin(owner, "replay", per_second=5)
        Runner(select).turn()
        first = replayed()
        clock(-HOUR)
        Runner(select).turn()
        assert replayed() == first + 1

    def test_may_be_slower_than_one_a_second(self, owner: Caller, dead: list[Trigger], clock: Clock) -> None:
        begin(owner, "replay", per_second=0.1)
        seen = []
        for seconds in (0, 5, 12, 15, 24):
            clock(timedelta(seconds=seconds))
            while Runner(select).turn() < PACED_SECONDS:
                pass
            seen.append(replayed())
        assert seen == [1, 1, 2, 2, 3]

    def test_is_not_lost_where_a_beat_is_killed_in_a_slice(
        self, owner: Caller, dead: list[Trigger], clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        operation = begin(owner, "replay", per_second=5)
        Runner(select).turn()
        first = replayed()
        clock(HOUR)

        def die(**_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(operations.operations_store, "note", die)
            with pytest.raises(KeyboardInterrupt):
                Runner(select).turn()
        assert replayed() == first
        Runner(select).turn()
        assert replayed() == shown(owner, operation)["done"] == first + 6

    def test_is_of_resumed_jobs_too_and_comes_to_an_end(self, owner: Caller, clock: Clock) -> None:
        for _ in range(7):
            make_job(owner.tenant, status="paused")
        operation = begin(owner, "resume", per_second=3)
        for hours in range(1, 5):
            Runner(select).turn()
            clock(hours * HOUR)
        found = shown(owner, operation)
        assert (found["done"], found["status"], found["per_second"]) == (7, "finished", 3)
        assert set(Job.objects.values_list("status", flat=True)) == {"active"}

    def test_keeps_no_other_operation_waiting(
        self, owner: Caller, outsider: Caller, dead: list[Trigger]
    ) -> None:
        begin(owner, "replay", per_second=0.1)
        Runner(select).turn()
        jobs = [make_job(caller.tenant) for caller in (owner, outsider)]
        for caller in (owner, outsider):
            begin(caller, "pause")
        runner = Runner(select)
        while runner.turn() < PACED_SECONDS:
            pass
        assert {Job.objects.get(id=job.id).status for job in jobs} == {"paused"}
        assert replayed() == 1

    def test_is_looked_after_sooner_than_an_idle_beat_would(
        self, owner: Caller, dead: list[Trigger], clock: Clock
    ) -> None:
        assert Runner(select).turn() == IDLE_SECONDS
        begin(owner, "replay", per_second=2)
        rests = [Runner(select).turn() for _ in range(10)]
        assert PACED_SECONDS <= max(rests) < IDLE_SECONDS
        owner.post(f"/operations/{Operation.objects.get().id}/pause")
        assert Runner(select).turn() == IDLE_SECONDS

    @pytest.mark.parametrize("pace", [0, -1, 0.09, 1001, "5", True, [], 1e300])
    def test_is_refused_out_of_range(self, owner: Caller, pace: Any) -> None:
        for verb in ("replay", "resume"):
            sent = {"verb": verb, "filter": {}, "per_second": pace}
            assert faulty_fields(owner.post("/operations", sent)) == {"per_second"}
        assert not Operation.objects.exists()

    @pytest.mark.parametrize("verb", ["pause", "cancel", "delete", "cancel_triggers"])
    def test_is_refused_to_what_has_none(self, owner: Caller, verb: str) -> None:
        sent = {"verb": verb, "filter": {}, "per_second": 5}
        assert faulty_fields(owner.post("/operations", sent)) == {"per_second"}


@pytest.mark.django_db(transaction=True)
class TestSeveralBeats:
    def test_keep_one_pace_together_and_do_each_item_once(self, owner: Caller) -> None:
        many = make_triggers(make_job(owner.tenant), 60, state="dead", reason="lost")
        operation = begin(owner, "replay", per_second=40)
        since = Operation.objects.get().created_at
        lock, worst = threading.Lock(), []

        def turn(_: int) -> None:
            runner = Runner(select)
            try:
                while Operation.objects.filter(finished_at=None).exists():
                    runner.turn()
                    with lock:
                        count = replayed()
                        worst.append(count - 40 * (now() - since).total_seconds())
            finally:
                connection.close()

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(turn, range(3)))
        assert shown(owner, operation)["done"] == 60
        assert set(Trigger.objects.values_list("replay_count", flat=True)) == {1}
        assert len(many) == 60
        assert max(worst) <= 1


class TestPausing:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operations, "SLICE", 2)

    def test_stops_it_where_it_is_until_it_is_resumed(self, owner: Caller, outsider: Caller) -> None:
        for _ in range(5):
            make_job(owner.tenant)
        path = f"/operations/{begin(owner, 'pause')}"
        Runner(select).turn()
        assert outsider.post(f"{path}/pause").status_code == 404
        assert outsider.post(f"{path}/resume").status_code == 404
        for _ in range(2):
            paused = owner.post(f"{path}/pause")
            assert (paused.status_code, paused.json()["status"], paused.json()["done"]) == (200, "paused", 2)
        assert Runner(select).turn() == IDLE_SECONDS
        assert Job.objects.filter(status="paused").count() == 2
        for _ in range(2):
            assert owner.post(f"{path}/resume").json()["status"] == "running"
        while Runner(select).turn() != IDLE_SECONDS:
            pass
        assert owner.get(path).json()["done"] == 5
        for verb in ("pause", "resume"):
            assert owner.post(f"{path}/{verb}").status_code == 409
            assert owner.post(f"{path}/{verb}", {"x": 1}).status_code == 400

    def test_may_end_in_a_cancel(self, owner: Caller) -> None:
        make_job(owner.tenant)
        path = f"/operations/{begin(owner, 'pause')}"
        owner.post(f"{path}/pause")
        assert owner.post(f"{path}/cancel").json()["status"] == "cancelled"
        assert Runner(select).turn() == IDLE_SECONDS
        assert Job.objects.get().status == "active"

    def test_counts_as_unfinished(self, owner: Caller) -> None:
        for _ in range(operations.MAX_UNFINISHED):
            owner.post(f"/operations/{begin(owner, 'pause')}/pause")
        assert owner.post("/operations", {"verb": "pause", "filter": {}}).status_code == 409

    def test_is_on_the_trail(self, owner: Caller) -> None:
        path = f"/operations/{begin(owner, 'pause')}"
        Change.objects.all().delete()
        for verb in ("pause", "pause", "resume", "pause", "cancel"):
            owner.post(f"{path}/{verb}")
        told = [change.changes["status"] for change in Change.objects.order_by("id")]
        assert told == [
            ["running", "paused"],
            ["paused", "running"],
            ["running", "paused"],
            ["paused", "cancelled"],
        ]
        assert {change.actor_kind for change in Change.objects.all()} == {"api_key"}


class TestCancellingTriggers:
    def carry_on(self) -> None:
        while Runner(select).turn() != IDLE_SECONDS:
            pass

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operations, "SLICE", 2)
        monkeypatch.setattr("jobs.selection.walks.SLICE_ROWS", 3)

    def test_ends_what_waits_asks_what_runs_and_leaves_the_rest(
        self, owner: Caller, outsider: Caller
    ) -> None:
        job = make_job(owner.tenant)
        waiting = [make_trigger(job, state) for state in ("pending", "queued", "retrying") for _ in range(2)]
        running = make_trigger(job, "running")
        ended = [make_trigger(job, state) for state in ("succeeded", "dead", "skipped", "cancelled")]
        foreign = make_trigger(make_job(outsider.tenant))
        before = [row(one) for one in (*ended, foreign)]
        operation = begin(owner, "cancel_triggers")
        self.carry_on()
        assert shown(owner, operation)["done"] == 7
        assert set(states(waiting)) == {"cancelled"}
        assert {row(one)["reason"] for one in waiting} == {"requested"}
        assert (row(running)["state"], row(running)["cancel_requested"]) == ("running", True)
        assert [row(one) for one in (*ended, foreign)] == before
        assert Job.objects.get(id=job.id).status == "active"

    @pytest.mark.parametrize("by", ["job", "job_type", "state", "scheduled_for_before"])
    def test_finds_them_by_filter(self, owner: Caller, by: str) -> None:
        job, other = make_job(owner.tenant, job_type="webhook"), make_job(owner.tenant)
        meant = make_trigger(job, "retrying", job_type="webhook", scheduled_for=now() - HOUR)
        others = [make_trigger(other), make_trigger(other, "running")]
        wanted = {
            "job": str(job.id),
            "job_type": "webhook",
            "state": "retrying",
            "scheduled_for_before": (now() - HOUR / 2).isoformat(),
        }[by]
        sent = {"verb": "cancel_triggers", "filter": {by: wanted}, "dry_run": True}
        assert owner.post("/operations", sent).json() == {"matching": 1, "exact": True}
        begin(owner, "cancel_triggers", {by: wanted})
        self.carry_on()
        assert states([meant, *others]) == ["cancelled", "pending", "running"]
        assert not Trigger.objects.filter(cancel_requested=True).exists()

    def test_leaves_alone_what_came_after_it(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        before = make_trigger(job)
        begin(owner, "cancel_triggers")
        after = make_trigger(job, created_at=now())
        self.carry_on()
        assert states([before, after]) == ["cancelled", "pending"]

    def test_lists_what_ended_meanwhile(self, owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
        gone, waiting = make_trigger(make_job(owner.tenant)), make_trigger(make_job(owner.tenant))
        operation = begin(owner, "cancel_triggers")
        real = select

        def late(taken: Any, most: int) -> Any:
            chosen = real(taken, most)
            Trigger.objects.filter(id=gone.id).update(state="succeeded", finished_at=now(), started_at=now())
            return chosen

        while Runner(late).turn() != IDLE_SECONDS:
            pass
        found = shown(owner, operation)
        assert (found["done"], found["refused"]) == (1, 1)
        assert found["refusals"] == [{"id": str(gone.id), "detail": "It has already ended."}]
        assert states([waiting]) == ["cancelled"]

    def test_is_one_entry_of_the_trail_as_it_begins_and_one_as_it_ends(self, owner: Caller) -> None:
        make_triggers(make_job(owner.tenant), 5)
        Change.objects.all().delete()
        begin(owner, "cancel_triggers")
        self.carry_on()
        begun, ended = Change.objects.order_by("id")
        assert (begun.action, ended.changes["done"], ended.changes["filter"]) == (
            "created",
            [None, 5],
            [None, {}],
        )

    @pytest.mark.parametrize(
        ("wanted", "field"),
        [
            ({"state": "dead"}, "filter.state"),
            ({"state": "no"}, "filter.state"),
            ({"reason": "lost"}, "filter.reason"),
            ({"status": "active"}, "filter.status"),
        ],
    )
    def test_refuses_filters_of_what_has_ended(self, owner: Caller, wanted: Any, field: str) -> None:
        sent = {"verb": "cancel_triggers", "filter": wanted}
        assert faulty_fields(owner.post("/operations", sent)) == {field}
        assert not Operation.objects.exists()
