"""Other waiting triggers of the same job: only those that dispatch would decide before a trigger count."""

import pytest

from jobs.store.insight import explain as explain_store
from tests.explain.asking import blocking, gate, is_dispatched
from tests.factories import HOUR, MINUTE, SECOND, make_job, make_trigger, make_triggers, now, state_of


class TestOverlap:
    def test_of_replace_lets_a_retry_go_that_is_due_before_a_newer_one(self) -> None:
        job = make_job(overlap_policy="replace")
        retry = make_trigger(job, "retrying", due_at=now() - 20 * SECOND, scheduled_for=now() - MINUTE)
        newer = make_trigger(job, scheduled_for=now() - 2 * SECOND)
        assert (blocking(retry), blocking(newer)) == ([], ["overlap"])
        assert "1 earlier one of the job goes before it, and it is skipped" in gate(newer, "overlap").detail
        assert is_dispatched(retry)
        assert state_of(newer) == ("skipped", "overlap")

    def test_of_replace_stops_a_retry_that_is_due_behind_a_newer_one(self) -> None:
        job = make_job(overlap_policy="replace")
        retry = make_trigger(job, "retrying", due_at=now() - 2 * SECOND, scheduled_for=now() - MINUTE)
        newer = make_trigger(job, scheduled_for=now() - 20 * SECOND)
        assert "a newer one that is due replaces it" in gate(retry, "overlap").detail
        assert "once the others, which are asked to stop, have stopped" in gate(newer, "overlap").detail
        assert not is_dispatched(retry)
        assert state_of(retry) == ("cancelled", "superseded")

    def test_of_queue_waits_for_an_older_one_that_dispatch_does_not_see(self) -> None:
        job = make_job(overlap_policy="queue")
        parked = {"parked": True, "held": True, "parked_until": now() + HOUR}
        make_trigger(job, scheduled_for=now() - 20 * SECOND, **parked)
        newer = make_trigger(job, scheduled_for=now() - 2 * SECOND)
        assert blocking(newer) == ["overlap"]
        assert "an earlier one of the job waits before it" in gate(newer, "overlap").detail
        assert not is_dispatched(newer)

    def test_counts_what_is_due_before_it_where_that_is_too_much_to_decide(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(explain_store, "MAX_AHEAD", 2)
        job = make_job(overlap_policy="allow", max_concurrent=100)
        first, _, third = make_triggers(job, 3, origin="run_now")
        assert (blocking(first), blocking(third)) == ([], ["overlap"])
        assert "2 earlier ones or more of the job are due before it" in gate(third, "overlap").detail


class TestRunBeside:
    def test_says_that_it_was_asked_to_ignore_overlap(self) -> None:
        job = make_job(overlap_policy="skip")
        make_trigger(job, "running")
        beside = make_trigger(job, origin="run_beside")
        assert blocking(beside) == []
        detail = gate(beside, "overlap").detail
        assert (
            detail == "It was asked to ignore overlap: it starts beside 1 other trigger of its job in flight."
        )
        assert is_dispatched(beside)

    def test_names_the_key_that_it_waits_for(self) -> None:
        job = make_job(overlap_policy="skip", concurrency_key="db", max_concurrent=1)
        make_trigger(make_job(job.tenant, concurrency_key="db"), "running", concurrency_key="db")
        beside = make_trigger(job, origin="run_beside")
        assert blocking(beside) == ["concurrency_key"]
        assert not is_dispatched(beside)
        assert blocking(beside) == ["concurrency_key"]


class TestConcurrencyKey:
    def test_blocks_for_the_next_of_its_job_where_one_place_is_left(self) -> None:
        job = make_job(max_concurrent=2, concurrency_key="db", overlap_policy="allow")
        make_trigger(make_job(job.tenant, concurrency_key="db"), "running", concurrency_key="db")
        first, second = (make_trigger(job, scheduled_for=now() - n * SECOND) for n in (3, 2))
        assert (blocking(first), blocking(second)) == ([], ["concurrency_key"])
        detail = gate(second, "concurrency_key").detail
        assert "1 in flight" in detail
        assert "1 earlier one of the job goes before it" in detail
        assert is_dispatched(first)
        assert state_of(second) == ("pending", "")


class TestItsJob:
    def test_is_asked_alone_while_it_is_not_active(self) -> None:
        job = make_job(overlap_policy="skip", status="paused")
        make_trigger(job, "running")
        trigger = make_trigger(job)
        assert blocking(trigger) == ["job"]
        assert "decided once its job is active" in gate(trigger, "overlap").detail
        assert not is_dispatched(trigger)
        assert state_of(trigger) == ("pending", "")
