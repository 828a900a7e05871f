"""``edit`` of ``/operations``: a merge patch over all jobs that match, decided as ``PATCH /jobs/{id}`` decides it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from jobs.actions.bulk import edits, operations
from jobs.actions.bulk.runner import IDLE_SECONDS, Runner
from jobs.actions.pull import types
from jobs.actions.pull.json_schema import MAX_STEPS, Allowance
from jobs.models import Change, Job, JobVersion, Operation, Trigger
from jobs.selection.walks import select
from tests.factories import HOUR, make_job, make_trigger, now, row, state_of, states
from tests.interfaces.api.caller import Caller, noop_job
from tests.interfaces.api.edits.edits import CRON, HOOK, begin, carry_on, made, run

#: Patches that some job accepts, with the job.
TAKEN = [
    ({}, {"priority": "critical"}),
    ({}, {"priority": None, "timeout_seconds": None}),
    ({"labels": {"env": "prod", "team": "a"}}, {"labels": {"env": "test", "team": None}}),
    ({"labels": {"env": "prod"}}, {"labels": None}),
    ({"schedule": CRON}, {"schedule": {"cron": "30 3 * * *"}}),
    ({"schedule": CRON}, {"schedule": {"type": "interval", "every_seconds": 90}}),
    ({"schedule": CRON}, {"schedule": {"starts_at": "2040-01-01T00:00:00Z", "ends_at": None}}),
    ({"job_type": "webhook", "payload": HOOK}, {"payload": {"headers": {"X-One": None, "X-Two": "2"}}}),
    (
        {"job_type": "webhook", "payload": HOOK},
        {"job_type": "noop", "payload": {"url": None, "headers": None}},
    ),
    ({"retry_policy": {"backoff": "fixed"}}, {"retry_policy": {"initial_delay_seconds": 5}}),
    ({}, {"retry_policy": {"backoff": "exponential", "factor": 3, "max_elapsed_seconds": None}}),
    ({}, {"retry_policy": None, "notify": None, "pause_after_failures": 3}),
    ({}, {"notify": {"on": ["dead"], "url": "https://ops.example/x", "email": None}}),
    ({}, {"overlap_policy": "allow", "max_concurrent": 4, "concurrency_key": "k"}),
    ({}, {"misfire_policy": "backfill", "misfire_grace_seconds": 5, "catchup_window_seconds": 60}),
    ({}, {"misfire_policy": None, "max_catchup": 7, "delivery": "at_most_once"}),
]


class TestAnEdit:
    @pytest.mark.parametrize(("given", "changes"), TAKEN)
    def test_leaves_a_job_as_its_own_patch_would(
        self, owner: Caller, given: dict[str, Any], changes: dict[str, Any]
    ) -> None:
        patched = owner.post("/jobs", noop_job(name="one") | given).json()
        edited = owner.post("/jobs", noop_job(name="two") | given).json()
        answer = owner.patch(f"/jobs/{patched['id']}", changes)
        assert answer.status_code == 200, answer.content
        done = run(owner, changes, {"name": "two"})
        assert (done["status"], done["done"], done["refusals"]) == ("finished", 1, [])
        own = {"id", "name", "created_at", "updated_at", "next_fire_at", "clock_change"}
        one, two = answer.json(), owner.get(f"/jobs/{edited['id']}").json()
        assert {name: one[name] for name in one if name not in own} == {
            name: two[name] for name in two if name not in own
        }
        assert two["version"] == 2 - (one["version"] == 1)

    def test_is_of_what_matches_and_of_nothing_else(
        self, owner: Caller, outsider: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "EDIT_SLICE", 2)
        matching = [make_job(owner.tenant, labels={"env": "prod"}) for _ in range(5)]
        others = [make_job(owner.tenant), make_job(outsider.tenant, labels={"env": "prod"})]
        done = run(owner, {"priority": "critical"}, {"labels": "env=prod"})
        assert (done["done"], done["refused"], done["changes"]) == (5, 0, {"priority": "critical"})
        stored = {job.id: (job.priority, job.version) for job in Job.objects.all()}
        assert {stored[job.id] for job in matching} == {(0, 2)}
        assert {stored[job.id] for job in others} == {(2, 1)}
        assert JobVersion.objects.filter(version=2).count() == 5

    def test_that_changes_nothing_makes_no_version(self, owner: Caller) -> None:
        made(owner, priority="high")
        assert run(owner, {"priority": "high"})["done"] == 1
        assert Job.objects.get().version == 1

    def test_withdraws_what_lies_ahead_and_hands_over_what_is_due(self, owner: Caller) -> None:
        active, paused = make_job(owner.tenant), make_job(owner.tenant, status="paused")
        ahead = [make_trigger(job, scheduled_for=now() + HOUR) for job in (active, paused)]
        due = [make_trigger(job, scheduled_for=now() - HOUR) for job in (active, paused)]
        queued = make_trigger(active, "queued", scheduled_for=now() - 2 * HOUR)
        running = make_trigger(active, "running", scheduled_for=now() - 3 * HOUR)
        assert run(owner, {"priority": "critical"})["done"] == 2
        assert not Trigger.objects.filter(id__in=[one.id for one in ahead]).exists()
        for one in (*due, queued):
            assert (row(one)["job_version"], row(one)["priority"], row(one)["state"]) == (2, 0, "pending")
        assert [row(one)["held"] for one in due] == [False, True]
        assert (row(running)["job_version"], state_of(running)) == (1, ("running", ""))

    def test_of_an_inert_field_moves_no_firing(self, owner: Caller) -> None:
        job = made(owner)
        ahead = make_trigger(job, scheduled_for=now() + HOUR)
        queued = make_trigger(job, "queued")
        run(owner, {"labels": {"env": "prod"}})
        assert states([ahead, queued]) == ["pending", "queued"]
        assert Job.objects.get().next_fire_at == job.next_fire_at
        assert Job.objects.get().version == 2

    def test_takes_true_for_something_else_than_one(self, owner: Caller) -> None:
        job = made(owner, job_type="webhook", payload={"url": "https://example.com/"})
        path = f"/jobs/{job.id}"
        for version, value in enumerate((1, True, [1], [True], {"a": 0}, {"a": False}), 2):
            answer = owner.patch(path, {"payload": {"body": {"x": value}}})
            assert answer.status_code == 200, answer.content
            assert (answer.json()["version"], answer.json()["payload"]["body"]) == (version, {"x": value})
            assert type(owner.get(path).json()["payload"]["body"]["x"]) is type(value)

    def test_lists_what_refuses_and_does_the_others(self, owner: Caller) -> None:
        good = [make_job(owner.tenant) for _ in range(2)]
        ended = make_job(owner.tenant, status="cancelled")
        once = make_job(
            owner.tenant, schedule_type="once", run_at=now() + HOUR, cron_expression="", interval=None
        )
        done = run(owner, {"schedule": {"every_seconds": 77}})
        assert (done["status"], done["done"], done["refused"]) == ("finished", 2, 2)
        told = {refusal["id"]: refusal["detail"] for refusal in done["refusals"]}
        assert "cancelled" in told[str(ended.id)]
        assert "schedule.every_seconds" in told[str(once.id)]
        assert {Job.objects.get(id=job.id).interval.total_seconds() for job in good} == {77.0}

    def test_leaves_jobs_alone_that_came_after_it(self, owner: Caller) -> None:
        before = make_job(owner.tenant)
        begin(owner, {"priority": "critical"})
        after = make_job(owner.tenant, created_at=now())
        carry_on()
        assert [Job.objects.get(id=job.id).priority for job in (before, after)] == [0, 2]

    def test_that_is_killed_in_a_slice_has_done_nothing_of_it(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "EDIT_SLICE", 2)
        for _ in range(4):
            make_job(owner.tenant)
        begun = begin(owner, {"priority": "critical"})
        Runner(select).turn()

        def die(**_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(operations.operations_store, "note", die)
            with pytest.raises(KeyboardInterrupt):
                Runner(select).turn()
        assert Job.objects.filter(priority=0).count() == 2
        carry_on()
        assert owner.get(f"/operations/{begun['id']}").json()["done"] == 4
        assert set(Job.objects.values_list("version", flat=True)) == {2}

    def test_goes_on_job_by_job_where_one_fails_as_nobody_foresaw(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = [make_job(owner.tenant) for _ in range(3)]
        real = edits.lifecycle.restamp

        def fragile(edited: Any) -> None:
            if jobs[1].id in {job.id for job in edited}:
                raise RuntimeError("bug")
            real(edited)

        monkeypatch.setattr(edits.lifecycle, "restamp", fragile)
        done = run(owner, {"priority": "critical"})
        assert (done["done"], [refusal["id"] for refusal in done["refusals"]]) == (2, [str(jobs[1].id)])
        assert [Job.objects.get(id=job.id).version for job in jobs] == [2, 1, 2]

    def test_is_on_the_trail_with_what_it_changes_and_each_job_with_the_values(self, owner: Caller) -> None:
        job = made(owner, job_type="webhook", payload=HOOK)
        Change.objects.all().delete()
        patch = {"priority": "critical", "payload": {"url": "https://a.example/swordfish"}}
        run(owner, patch, {"name": job.name})
        begun, of_job, ended = Change.objects.order_by("id")
        assert of_job.changes == {"payload": None, "priority": [2, 0], "version": [1, 2]}
        assert begun.changes == {
            "filter": [None, {"name": job.name}],
            "changes": [None, ["payload", "priority"]],
        }
        assert (ended.changes["status"], ended.changes["done"]) == (["running", "finished"], [None, 1])
        assert "swordfish" not in str(list(Change.objects.values()))
        assert len({change.actor for change in Change.objects.all()}) == 1

    def test_spends_no_more_on_payloads_in_a_slice_than_a_call_may(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And it refuses no job because of the others' cost: that job comes with the next slice."""
        owner.put("/job-types/invoice.render", {"payload_schema": {"type": "object", "minProperties": 0}})
        for name in ("one", "two", "three"):
            owner.post("/jobs", noop_job(name=name, job_type="invoice.render"))
        monkeypatch.setattr(types, "Allowance", lambda: Allowance(steps=MAX_STEPS))
        self.ends_slices_with_each_job(owner)

    @pytest.mark.parametrize("how", [{}, {"all_or_nothing": True}])
    def test_takes_no_longer_in_a_slice_than_it_may(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
    ) -> None:
        monkeypatch.setattr(edits, "MAX_JUDGING_SECONDS", 0.0)
        for name in ("one", "two", "three"):
            made(owner, name=name, job_type="webhook", payload=HOOK)
        self.ends_slices_with_each_job(owner, **how)

    def ends_slices_with_each_job(self, owner: Caller, **how: Any) -> None:
        begun, shown = begin(owner, {"priority": "critical"}, **how), {}
        seen, runner = [], Runner(select)
        while runner.turn() != IDLE_SECONDS:
            shown = owner.get(f"/operations/{begun['id']}").json()
            seen.append(shown["done"] or shown["checked"])
        assert [count for count in (1, 2, 3) if count in seen] == [1, 2, 3]
        assert shown["refused"] == 0
        assert {(job.priority, job.version) for job in Job.objects.all()} == {(0, 2)}


@pytest.mark.django_db(transaction=True)
class TestSeveralBeats:
    @pytest.mark.parametrize("all_or_nothing", [False, True])
    def test_edit_each_job_once(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch, all_or_nothing: bool
    ) -> None:
        monkeypatch.setattr(operations, "EDIT_SLICE", 3)
        for _ in range(20):
            make_job(owner.tenant)
        begun = begin(owner, {"priority": "critical"}, all_or_nothing=all_or_nothing)

        def turn(_: int) -> None:
            runner = Runner(select)
            try:
                while Operation.objects.filter(finished_at=None).exists():
                    runner.turn()
            finally:
                connection.close()

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(turn, range(3)))
        shown = owner.get(f"/operations/{begun['id']}").json()
        assert (shown["done"], shown["refused"]) == (20, 0)
        assert set(Job.objects.values_list("version", flat=True)) == {2}
