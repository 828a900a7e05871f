"""Edits of many jobs that are tried first: all or nothing, and dry runs."""

from typing import Any

import pytest

from jobs.actions.bulk import edits, operations
from jobs.actions.bulk.runner import IDLE_SECONDS, Runner
from jobs.models import Job, Operation
from jobs.selection.walks import select
from tests.factories import make_job
from tests.interfaces.api.caller import Caller, noop_job
from tests.interfaces.api.edits.edits import CRON, begin, carry_on, made, preview, run


class TestAllOrNothing:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operations, "EDIT_SLICE", 2)

    def test_edits_none_where_one_refuses(self, owner: Caller) -> None:
        jobs = [make_job(owner.tenant) for _ in range(4)]
        ended = make_job(owner.tenant, status="completed")
        jobs.append(make_job(owner.tenant))
        done = run(owner, {"priority": "critical"}, all_or_nothing=True)
        assert (done["status"], done["done"], done["refused"], done["checked"]) == ("refused", 0, 1, 6)
        assert [refusal["id"] for refusal in done["refusals"]] == [str(ended.id)]
        assert set(Job.objects.values_list("version", flat=True)) == {1}

    def test_edits_all_where_none_does(self, owner: Caller) -> None:
        for _ in range(5):
            make_job(owner.tenant)
        begun = begin(owner, {"priority": "critical"}, all_or_nothing=True)
        seen, runner = [], Runner(select)
        while runner.turn() != IDLE_SECONDS:
            shown = owner.get(f"/operations/{begun['id']}").json()
            seen.append((shown["checked"], shown["done"], shown["status"]))
        assert seen == [
            (2, 0, "running"),
            (4, 0, "running"),
            (5, 0, "running"),
            (5, 2, "running"),
            (5, 4, "running"),
            (5, 5, "finished"),
        ]
        assert set(Job.objects.values_list("version", flat=True)) == {2}

    def test_that_is_killed_while_it_checks_begins_where_it_was(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(4):
            make_job(owner.tenant)
        begun = begin(owner, {"priority": "critical"}, all_or_nothing=True)
        Runner(select).turn()

        def die(**_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(operations.operations_store, "note_checked", die)
            with pytest.raises(KeyboardInterrupt):
                Runner(select).turn()
        carry_on()
        shown = owner.get(f"/operations/{begun['id']}").json()
        assert (shown["checked"], shown["done"]) == (4, 4)

    def test_edits_none_where_one_fails_as_nobody_foresaw(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(3):
            make_job(owner.tenant)

        def fail(*_: Any, **__: Any) -> Any:
            raise RuntimeError("bug")

        monkeypatch.setattr(operations.edits, "judge", fail)
        done = run(owner, {"priority": "critical"}, all_or_nothing=True)
        assert (done["status"], done["done"], done["refused"]) == ("refused", 0, 3)
        assert "bug" not in str(done)


class TestADryRun:
    def test_counts_and_shows_the_first_ten_differences_before_and_after(
        self, owner: Caller, outsider: Caller
    ) -> None:
        jobs = [made(owner, name=f"job-{n}") for n in range(12)]
        same = made(owner, priority="critical")
        ended = make_job(owner.tenant, status="cancelled")
        make_job(outsider.tenant)
        shown = preview(owner, {"priority": "critical"})
        assert (shown["matching"], shown["exact"]) == (14, True)
        assert (shown["looked_at"], shown["changed"], shown["refused"]) == (14, 12, 1)
        assert [one["id"] for one in shown["differences"]] == [str(job.id) for job in jobs[:10]]
        assert shown["differences"][0] == {
            "id": str(jobs[0].id),
            "name": jobs[0].name,
            "changes": {"priority": {"before": "medium", "after": "critical"}},
        }
        assert [refusal["id"] for refusal in shown["refusals"]] == [str(ended.id)]
        assert str(same.id) not in {one["id"] for one in shown["differences"]}
        assert set(Job.objects.values_list("version", flat=True)) == {1}
        assert not Operation.objects.exists()

    def test_shows_whole_fields(self, owner: Caller) -> None:
        owner.post("/jobs", noop_job(schedule=CRON, labels={"a": "1"}))
        [told] = preview(owner, {"schedule": {"cron": "5 4 * * *"}, "labels": {"b": "2"}})["differences"]
        assert set(told["changes"]) == {"schedule", "labels"}
        assert told["changes"]["labels"] == {"before": {"a": "1"}, "after": {"a": "1", "b": "2"}}
        assert told["changes"]["schedule"]["after"]["cron"] == "5 4 * * *"
        assert told["changes"]["schedule"]["after"]["timezone"] == "Europe/Berlin"

    def test_is_bounded(self, owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(edits, "PREVIEWED", 3)
        for _ in range(5):
            make_job(owner.tenant)
        shown = preview(owner, {"priority": "critical"})
        assert (shown["matching"], shown["looked_at"], shown["changed"]) == (5, 3, 3)

    def test_of_other_verbs_only_counts(self, owner: Caller) -> None:
        answer = owner.post("/operations", {"verb": "pause", "filter": {}, "dry_run": True})
        assert answer.json() == {"matching": 0, "exact": True}
