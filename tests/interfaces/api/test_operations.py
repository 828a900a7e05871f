"""``/operations``: one verb for all that match a filter, slice by slice, even if beats die or many beats help."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.actions.bulk import operations, statuses
from jobs.actions.bulk.runner import IDLE_SECONDS, Runner
from jobs.engine.housekeeper import Housekeeper
from jobs.models import Job, JobVersion, Operation, Trigger
from jobs.selection import walks as selection
from jobs.selection.walks import select
from tests.factories import make_job, make_trigger, now, owing, states
from tests.interfaces.api.caller import Caller, faulty_fields
from tests.interfaces.api.test_lists import walk

PROD = {"env": "prod"}


def begin(caller: Caller, verb: str, **wanted: str) -> str:
    answer = caller.post("/operations", {"verb": verb, "filter": wanted})
    assert answer.status_code == 202, answer.content
    assert answer["Location"] == f"/api/v1/operations/{answer.json()['id']}"
    assert answer.json()["status"] == "running"
    return str(answer.json()["id"])


def run(caller: Caller, verb: str, **wanted: str) -> dict[str, Any]:
    """Begin an operation and carry it on to its end; returns it."""
    path = f"/operations/{begin(caller, verb, **wanted)}"
    runner = Runner(select)
    for _ in range(100):
        if runner.turn() == IDLE_SECONDS:
            break
    shown: dict[str, Any] = caller.get(path).json()
    assert shown["status"] == "finished"
    return shown


def statuses_of(*jobs: Job) -> list[str]:
    return [Job.objects.get(id=job.id).status for job in jobs]


class TestAnOperation:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Slices of two, which look at three rows."""
        monkeypatch.setattr(operations, "SLICE", 2)
        monkeypatch.setattr(selection, "SLICE_ROWS", 3)

    @pytest.mark.parametrize(
        "wanted",
        [{"labels": "env=prod"}, {"job_type": "webhook"}, {"name_prefix": "x"}, {"priority": "high"}],
    )
    def test_pauses_what_matches_and_nothing_else(
        self, owner: Caller, outsider: Caller, wanted: dict[str, str]
    ) -> None:
        plain = {"labels": PROD, "job_type": "webhook", "priority": 1}
        matching, others = [], []
        for n in range(7):
            others.append(make_job(owner.tenant))
            matching.append(make_job(owner.tenant, name=f"x{n}", **plain))
        foreign = make_job(outsider.tenant, name="x", **plain)
        done = run(owner, "pause", **wanted)
        assert (done["done"], done["refused"], done["verb"], done["filter"]) == (7, 0, "pause", wanted)
        assert set(statuses_of(*matching)) == {"paused"}
        assert set(statuses_of(*others, foreign)) == {"active"}

    def test_resumes_and_says_what_it_could_not(self, owner: Caller) -> None:
        paused = [make_job(owner.tenant, status="paused") for _ in range(3)]
        ended = make_job(owner.tenant, status="cancelled")
        done = run(owner, "resume")
        assert (done["done"], done["refused"]) == (3, 1)
        [refusal] = done["refusals"]
        assert (refusal["id"], "cancelled" in refusal["detail"]) == (str(ended.id), True)
        assert set(statuses_of(*paused)) == {"active"}

    def test_cancels_and_deletes(self, owner: Caller) -> None:
        jobs = [make_job(owner.tenant) for _ in range(3)]
        waiting = make_trigger(jobs[0])
        assert run(owner, "cancel")["done"] == 3
        assert (set(statuses_of(*jobs)), states([waiting])) == ({"cancelled"}, ["cancelled"])
        assert run(owner, "delete")["done"] == 3
        assert owner.get("/jobs").json()["results"] == []

    def test_replays_what_is_dead_unless_told_otherwise(self, owner: Caller, outsider: Caller) -> None:
        job = make_job(owner.tenant)
        dead = [make_trigger(job, "dead", reason="lost") for _ in range(5)]
        other = make_trigger(job, "dead", reason="exhausted")
        skipped = make_trigger(job, "skipped")
        foreign = make_trigger(make_job(outsider.tenant), "dead", reason="lost")
        assert run(owner, "replay", reason="lost")["done"] == 5
        assert states([*dead, other, skipped, foreign]) == ["pending"] * 5 + ["dead", "skipped", "dead"]
        assert run(owner, "replay", state="skipped", job=str(job.id))["done"] == 1
        assert states([skipped]) == ["pending"]

    def test_leaves_alone_what_came_after_it(self, owner: Caller) -> None:
        before = make_job(owner.tenant)
        path = f"/operations/{begin(owner, 'pause')}"
        after = make_job(owner.tenant, created_at=now())
        runner = Runner(select)
        while runner.turn() != IDLE_SECONDS:
            pass
        assert (owner.get(path).json()["done"], statuses_of(before, after)) == (1, ["paused", "active"])

    def test_shows_how_far_it_has_come(self, owner: Caller) -> None:
        for _ in range(5):
            make_job(owner.tenant)
        path = f"/operations/{begin(owner, 'pause')}"
        seen, runner = [], Runner(select)
        while runner.turn() != IDLE_SECONDS:
            shown = owner.get(path).json()
            seen.append((shown["done"], shown["status"]))
        assert seen == [(2, "running"), (4, "running"), (5, "finished")]

    def test_can_be_stopped(self, owner: Caller, outsider: Caller) -> None:
        for _ in range(5):
            make_job(owner.tenant)
        path = f"/operations/{begin(owner, 'pause')}"
        Runner(select).turn()
        assert outsider.post(f"{path}/cancel").status_code == 404
        assert owner.post(f"{path}/cancel").json()["status"] == "cancelled"
        assert owner.post(f"{path}/cancel").json()["done"] == 2
        assert Runner(select).turn() == IDLE_SECONDS
        assert Job.objects.filter(status="paused").count() == 2
        finished = run(owner, "pause")
        assert owner.post(f"/operations/{finished['id']}/cancel").status_code == 409

    def test_that_is_killed_in_a_slice_has_done_nothing_of_it(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = [make_job(owner.tenant) for _ in range(4)]
        path = f"/operations/{begin(owner, 'pause')}"
        Runner(select).turn()

        def die(**_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(operations.operations_store, "note", die)
            with pytest.raises(KeyboardInterrupt):
                Runner(select).turn()
        assert statuses_of(*jobs).count("paused") == owner.get(path).json()["done"] == 2
        while Runner(select).turn() != IDLE_SECONDS:
            pass
        assert owner.get(path).json()["done"] == 4
        assert JobVersion.objects.count() == 4

    def test_is_not_stopped_by_one_job_that_nobody_foresaw(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "SLICE_ALONE", 1)
        jobs = [make_job(owner.tenant) for _ in range(3)]
        pause = statuses.pause

        def fragile(locked: Any, **how: Any) -> Any:
            if jobs[1].id in {job.id for job in locked}:
                raise RuntimeError("bug")
            return pause(locked, **how)

        monkeypatch.setitem(operations._TOGETHER, "pause", fragile)
        monkeypatch.setattr(statuses, "pause", fragile)
        done = run(owner, "pause")
        assert (done["done"], done["refused"]) == (2, 1)
        assert done["refusals"][0]["id"] == str(jobs[1].id)
        assert "bug" not in done["refusals"][0]["detail"]

    def test_ends_a_slice_with_a_job_that_has_much_waiting(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "SLICE", 10)
        monkeypatch.setattr(operations, "MAX_TRIGGERS", 3)
        jobs = [make_job(owner.tenant) for _ in range(5)]
        triggers = [make_trigger(jobs[n]) for n in (0, 1, 1, 1, 4)]
        path = f"/operations/{begin(owner, 'cancel')}"
        seen, runner = [], Runner(select)
        while runner.turn() != IDLE_SECONDS:
            seen.append(owner.get(path).json()["done"])
        assert seen[:2] == [2, 5]
        assert set(states(triggers)) == {"cancelled"}

    def test_ends_a_slice_with_a_job_that_owes_much(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "SLICE", 10)
        monkeypatch.setattr(operations, "MAX_TRIGGERS", 3)
        jobs = [make_job(owner.tenant, status="paused", **owing(5)) for _ in range(3)]
        path = f"/operations/{begin(owner, 'resume')}"
        seen, runner = [], Runner(select)
        while runner.turn() != IDLE_SECONDS:
            seen.append(owner.get(path).json()["done"])
        assert seen == [1, 2, 3]
        owed = Trigger.objects.filter(job__in=jobs)
        assert set(owed.values_list("state", "reason")) == {("skipped", "paused")}
        assert owed.count() == 3 * 5

    def test_that_takes_longer_than_a_statement_may_keeps_no_other_from_it(
        self, owner: Caller, outsider: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deep, other = make_job(owner.tenant), make_job(outsider.tenant)
        real = statuses.cancel

        def cancel(jobs: list[Job]) -> statuses.Refusals:
            if deep.id in [job.id for job in jobs]:
                with connection.cursor() as cursor:
                    cursor.execute("SET LOCAL statement_timeout = '20ms'")
                    cursor.execute("SELECT pg_sleep(5)")
            return real(jobs)

        monkeypatch.setattr(statuses, "cancel", cancel)
        monkeypatch.setitem(operations._TOGETHER, "cancel", cancel)
        begin(owner, "cancel")
        begin(outsider, "cancel")
        runner = Runner(select)
        for _ in range(4):
            runner.turn()
        assert statuses_of(deep, other) == ["active", "cancelled"]

    def test_that_cannot_go_on_keeps_no_other_from_it(self, owner: Caller, outsider: Caller) -> None:
        broken = begin(owner, "pause")
        Operation.objects.filter(id=broken).update(filter={"status": "no such"})
        make_job(outsider.tenant)
        path = f"/operations/{begin(outsider, 'pause')}"
        runner = Runner(select)
        for _ in range(4):
            runner.turn()
        assert outsider.get(path).json()["status"] == "finished"
        assert owner.get(f"/operations/{broken}").json()["status"] == "running"


class TestADryRun:
    def test_counts_what_would_be_done_and_does_nothing(
        self, owner: Caller, outsider: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for n in range(6):
            make_job(owner.tenant, labels=PROD if n % 2 else {})
        make_job(outsider.tenant, labels=PROD)
        asked = {"verb": "pause", "filter": {"labels": "env=prod"}, "dry_run": True}
        answer = owner.post("/operations", asked)
        assert (answer.status_code, answer.json()) == (200, {"matching": 3, "exact": True})
        monkeypatch.setattr(selection, "DRY_RUN_ROWS", 2)
        assert owner.post("/operations", asked).json() == {"matching": 2, "exact": False}
        assert not Operation.objects.exists()
        assert set(Job.objects.values_list("status", flat=True)) == {"active"}


class TestTheList:
    def test_shows_a_tenant_its_own(self, owner: Caller, outsider: Caller) -> None:
        begun = [begin(owner, "pause") for _ in range(3)]
        foreign = begin(outsider, "pause")
        rows = [row for page in walk(owner, "/operations?page_size=2") for row in page]
        assert [row["id"] for row in rows] == list(reversed(begun))
        assert owner.get(f"/operations/{foreign}").status_code == 404

    def test_is_bounded_while_they_are_unfinished(self, owner: Caller, outsider: Caller) -> None:
        for _ in range(operations.MAX_UNFINISHED):
            begin(owner, "pause")
        refused = owner.post("/operations", {"verb": "pause", "filter": {}})
        assert refused.status_code == 409
        begin(outsider, "pause")

    def test_loses_what_is_past_retention(self, owner: Caller, clock: Any) -> None:
        old, unfinished = begin(owner, "pause"), begin(owner, "pause")
        owner.post(f"/operations/{old}/cancel")
        clock(timedelta(days=91))
        Housekeeper(retention=timedelta(days=90), trail_retention=timedelta(days=90)).keep()
        assert [str(operation.id) for operation in Operation.objects.all()] == [unfinished]

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, {"verb"}),
            ({"verb": "run", "filter": {}}, {"verb"}),
            ({"verb": "pause"}, {"filter"}),
            ({"verb": "pause", "filter": []}, {"filter"}),
            ({"verb": "pause", "filter": {"bogus": "x"}}, {"filter.bogus"}),
            ({"verb": "pause", "filter": {"state": "dead"}}, {"filter.state"}),
            ({"verb": "replay", "filter": {"status": "paused"}}, {"filter.status"}),
            ({"verb": "pause", "filter": {"status": "no"}}, {"filter.status"}),
            ({"verb": "pause", "filter": {"status": ""}}, {"filter.status"}),
            ({"verb": "pause", "filter": {"labels": {"env": "prod"}}}, {"filter.labels"}),
            ({"verb": "pause", "filter": {"labels": "x"}}, {"filter.labels"}),
            ({"verb": "replay", "filter": {"job": "x"}}, {"filter.job"}),
            (
                {"verb": "pause", "filter": {"created_after": "9999-12-31T23:59:59Z"}},
                {"filter.created_after"},
            ),
            ({"verb": "pause", "filter": {}, "dry_run": 1, "x": 1}, {"dry_run", "x"}),
        ],
    )
    def test_takes_nothing_that_is_not_understood(
        self, owner: Caller, body: dict[str, Any], fields: set[str]
    ) -> None:
        assert faulty_fields(owner.post("/operations", body)) == fields
        assert not Operation.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestSeveralBeats:
    def test_do_each_item_once(self, owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operations, "SLICE", 3)
        for _ in range(20):
            make_job(owner.tenant)
        path = f"/operations/{begin(owner, 'pause')}"

        def carry_on(_: int) -> None:
            runner = Runner(select)
            try:
                while Operation.objects.filter(finished_at=None).exists():
                    runner.turn()
            finally:
                connection.close()

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(carry_on, range(3)))
        assert owner.get(path).json()["done"] == 20
        assert JobVersion.objects.filter(status="paused").count() == 20
