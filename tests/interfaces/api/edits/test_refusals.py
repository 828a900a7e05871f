"""Edits of many jobs that are refused before they begin."""

from typing import Any

import pytest

from jobs.core.json_rules import MAX_DEPTH
from jobs.models import Job, Operation
from tests.factories import make_job
from tests.interfaces.api.caller import Caller, faulty_fields


def deep(levels: int) -> Any:
    return {"x": deep(levels - 1)} if levels else 1


class TestRefused:
    @pytest.mark.parametrize(
        ("changes", "fields"),
        [
            (None, {"changes"}),
            ([], {"changes"}),
            ({}, {"changes"}),
            ("priority", {"changes"}),
            ({"bogus": 1}, {"changes.bogus"}),
            ({"status": "paused"}, {"changes.status"}),
            ({"id": "x", "version": 3}, {"changes.id", "changes.version"}),
            ({"created_at": None}, {"changes.created_at"}),
            ({"name": "x"}, {"changes.name"}),
            ({"name": None}, {"changes.name"}),
            ({"priority": "urgent"}, {"changes.priority"}),
            ({"timeout_seconds": 0}, {"changes.timeout_seconds"}),
            ({"schedule": {"bogus": 1}}, {"changes.schedule.bogus"}),
            ({"schedule": 7}, {"changes.schedule"}),
            ({"retry_policy": {"max_attempts": 0}}, {"changes.retry_policy.max_attempts"}),
            ({"retry_policy": {"bogus": 1}}, {"changes.retry_policy.bogus"}),
            ({"labels": []}, {"changes.labels"}),
            ({"payload": []}, {"changes.payload"}),
            ({"notify": {"on": ["never"], "url": "https://a.example"}}, {"changes.notify.on[0]"}),
            ({"max_concurrent": 1.5, "priority": 1}, {"changes.max_concurrent", "changes.priority"}),
        ],
    )
    def test_is_what_no_job_could_take_by_its_name(
        self, owner: Caller, changes: Any, fields: set[str]
    ) -> None:
        make_job(owner.tenant)
        for dry_run in (False, True):
            sent = {"verb": "edit", "filter": {}, "changes": changes, "dry_run": dry_run}
            assert faulty_fields(owner.post("/operations", sent)) == fields
        assert not Operation.objects.exists()
        assert Job.objects.get().version == 1

    def test_is_a_patch_that_is_too_large_or_too_deep(self, owner: Caller) -> None:
        owner.tenant.max_payload_bytes = 2_000  # type: ignore[union-attr]
        owner.tenant.save()  # type: ignore[union-attr]
        big = {"verb": "edit", "filter": {}, "changes": {"payload": {"x": "y" * 3_000}}}
        assert faulty_fields(owner.post("/operations", big)) == {"changes.payload"}
        nested = {"verb": "edit", "filter": {}, "changes": {"payload": deep(MAX_DEPTH + 5)}}
        assert owner.post("/operations", nested).status_code == 400
        assert not Operation.objects.exists()

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({"verb": "edit", "filter": {}}, {"changes"}),
            ({"verb": "edit", "filter": {"bogus": "x"}, "changes": {"priority": "high"}}, {"filter.bogus"}),
            ({"verb": "pause", "filter": {}, "changes": {"priority": "high"}}, {"changes"}),
            (
                {"verb": "edit", "filter": {}, "changes": {"priority": "high"}, "per_second": 5},
                {"per_second"},
            ),
            (
                {"verb": "edit", "filter": {}, "changes": {"priority": "high"}, "all_or_nothing": 1},
                {"all_or_nothing"},
            ),
        ],
    )
    def test_is_what_does_not_belong_to_it(
        self, owner: Caller, body: dict[str, Any], fields: set[str]
    ) -> None:
        assert faulty_fields(owner.post("/operations", body)) == fields
        assert not Operation.objects.exists()
