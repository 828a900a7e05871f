"""People create jobs: which fields are filled in, and which definitions are refused."""

from datetime import UTC, timedelta
from typing import Any

import pytest

from jobs.actions import jobs as actions
from jobs.actions.definition import representation
from jobs.core.errors import Conflict, InvalidInput, QuotaExceeded
from jobs.core.policies import Delivery
from tests.factories import HOUR, MINUTE, SECOND, make_tenant, now
from tests.interfaces.job_actions.jobs import create, definition, step_beat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


class TestCreate:
    def test_fills_in_what_the_caller_left_out(self) -> None:
        job = create()
        assert (job.status, job.version, job.priority) == ("active", 1, 2)
        assert job.timeout == timedelta(seconds=90)  # the job type's own
        assert (job.overlap_policy, job.misfire_policy, job.delivery) == (
            "skip",
            "fire_once",
            "at_least_once",
        )
        assert job.next_fire_at == job.created_at + MINUTE

    def test_makes_a_one_time_job_fire_whatever_its_age(self) -> None:
        assert create(schedule={"type": "immediate"}).misfire_policy == "fire_all"

    def test_takes_the_time_from_the_database(self, clock: Any) -> None:
        clock(24 * HOUR)
        job = create(schedule={"type": "immediate"})
        assert abs(job.created_at - now()) < MINUTE
        assert job.next_fire_at == job.created_at

    def test_reads_cron_in_its_zone(self) -> None:
        job = create(schedule={"type": "cron", "cron": "0 2 * * *", "timezone": "Asia/Kolkata"})
        assert job.next_fire_at is not None
        assert f"{job.next_fire_at.astimezone(UTC):%H:%M}" == "20:30"

    def test_lets_a_slightly_past_run_at_fire_at_once(self) -> None:
        run_at = now() - 30 * SECOND
        job = create(schedule={"type": "once", "run_at": run_at.isoformat()})
        assert job.next_fire_at == run_at
        step_beat()
        assert [trigger.scheduled_for for trigger in job.triggers.all()] == [run_at]

    def test_refuses_a_run_at_of_two_minutes_ago(self) -> None:
        run_at = now() - 2 * MINUTE
        with pytest.raises(InvalidInput) as refused:
            create(schedule={"type": "once", "run_at": run_at.isoformat()})
        assert list(refused.value.errors) == ["schedule.run_at"]

    def test_names_a_one_time_job_that_has_no_name(self) -> None:
        tenant = make_tenant()
        names = {create(tenant, name=None, schedule={"type": "immediate"}).name for _ in range(3)}
        assert len(names) == 3
        assert all(name.startswith("noop-") for name in names)

    def test_refuses_a_name_that_is_taken_and_frees_it_with_deletion(self) -> None:
        tenant = make_tenant()
        job = create(tenant)
        with pytest.raises(Conflict) as refused:
            create(tenant)
        assert refused.value.field == "name"
        assert create().name == job.name  # another tenant's
        actions.delete_job(tenant=tenant, job_id=job.id)
        assert create(tenant).id != job.id

    def test_holds_the_quota_of_jobs(self) -> None:
        tenant = make_tenant(max_jobs=2)
        jobs = [create(tenant, name=f"job {number}") for number in range(2)]
        with pytest.raises(QuotaExceeded) as refused:
            create(tenant, name="one more")
        assert (refused.value.quota, refused.value.limit, refused.value.used) == ("max_jobs", 2, 2)
        actions.delete_job(tenant=tenant, job_id=jobs[0].id)
        assert create(tenant, name="one more")

    def test_gives_back_what_it_was_given(self) -> None:
        given = definition(
            schedule={
                "type": "cron",
                "cron": "0 2 * * mon",
                "timezone": "Asia/Calcutta",
                "jitter_seconds": 5,
            },
            payload={"sleep_ms": 3},
            priority="critical",
            timeout_seconds=1.5,
            retry_policy={"max_attempts": 4, "backoff": "exponential", "initial_delay_seconds": 30},
            delivery="at_most_once",
        )
        shown = representation(actions.create_job(tenant=make_tenant(), definition=given))
        assert shown["schedule"]["cron"] == "0 2 * * MON"
        assert shown["schedule"]["timezone"] == "Asia/Kolkata"
        assert {name: shown[name] for name in ("payload", "priority", "timeout_seconds", "delivery")} == {
            name: given[name] for name in ("payload", "priority", "timeout_seconds", "delivery")
        }
        assert given["retry_policy"].items() <= shown["retry_policy"].items()

    @pytest.mark.parametrize("delivery", Delivery)
    def test_takes_every_delivery(self, delivery: Delivery) -> None:
        job = actions.create_job(tenant=make_tenant(), definition=definition(delivery=str(delivery)))
        assert representation(job)["delivery"] == delivery
