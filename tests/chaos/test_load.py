"""The load and the faults without a cluster: drawn from the seed, accepted by the API, walked by the judge."""

import importlib
import random
import sys
from datetime import UTC, datetime
from math import gcd

import pytest

from chaos.faults import FAULTS
from chaos.judge.expected import named
from chaos.judge.limits import OF_FAULT
from chaos.load.definitions import Plan, plans, shared_plans, tenants
from chaos.load.pull_worker import SHARED, reference_worker
from chaos.load.workflows import workflow_plans
from chaos.load.workflows.shapes import SIZES
from chaos.runner import PROFILES
from jobs.actions.definition import parse
from jobs.actions.workflows.definitions import create_workflow, find_version
from jobs.core.schedule import Schedule, ScheduleType, fire_times
from tests.factories import make_tenant

NOW = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)


def drawn(name: str, *, seed: int = 1):
    profile = PROFILES[name]
    return list(
        plans(
            random.Random(seed), tenants=tenants(profile.tenants), jobs=profile.jobs, periods=profile.periods
        )
    )


def drawn_to_share(*, seed: int = 1) -> list[Plan]:
    return list(shared_plans(random.Random(seed), tenants=tenants(4), jobs=12))


class TestWhatBothKindsOfWorkersServe:
    def test_is_the_same_for_the_same_seed_and_falls_due_at_once(self):
        assert drawn_to_share() == drawn_to_share() != drawn_to_share(seed=2)
        assert len({str(plan.schedule) for plan in drawn_to_share()}) == 1

    def test_is_of_a_tenant_with_pull_workers_and_of_one_without(self):
        assert {plan.tenant for plan in drawn_to_share()} == {"tenant1", "tenant2"}
        assert {plan.job_type for plan in drawn_to_share()} == {SHARED}

    def test_is_run_by_the_reference_worker(self):
        assert list(reference_worker().HANDLERS) == [SHARED]


class TestTheLoad:
    @pytest.mark.parametrize("name", PROFILES)
    def test_is_the_same_for_the_same_seed(self, name):
        assert drawn(name) == drawn(name) != drawn(name, seed=2)
        assert len(drawn(name)) == PROFILES[name].jobs

    @pytest.mark.django_db
    def test_is_accepted_by_the_api_as_it_is_meant(self, job_types):
        # Import it again, even if another test has imported it: the import registers its job types.
        sys.modules.pop("chaos.load.handlers", None)
        importlib.import_module("chaos.load.handlers")
        tenant = make_tenant()
        for plan in [*drawn("short"), *drawn_to_share()]:
            columns = parse(plan.definition(receiver_url="http://127.0.0.1:1"), tenant=tenant, now=NOW)
            assert columns["overlap_policy"] == plan.overlap_policy
            assert columns["delivery"] == plan.delivery

    @pytest.mark.django_db
    def test_has_workflows_that_the_api_accepts_as_the_judge_knows_them(self, job_types):
        sys.modules.pop("chaos.load.handlers", None)
        importlib.import_module("chaos.load.handlers")
        tenant = make_tenant()
        for plan in workflow_plans():
            definition = plan.definition(receiver_url="http://127.0.0.1:1")
            read = find_version(create_workflow(tenant=tenant, definition=definition), 1).definition
            made = plan.made({"id": plan.name}, tenant="acme", at=NOW.timestamp())
            assert [[edge["before"], edge["after"], edge["on"]] for edge in read["edges"]] == made.edges
            assert {key: task["when"] for key, task in read["tasks"].items()} == {
                key: task["when"] for key, task in made.tasks.items()
            }
            assert (read["on_failure"], read.get("max_parallel"), read.get("deadline_seconds")) == (
                made.on_failure,
                made.max_parallel,
                made.deadline_seconds,
            )
            assert {
                key: (task.get("workflow") or {}).get("name", "") for key, task in read["tasks"].items()
            } == {key: task["inner"] for key, task in made.tasks.items()}

    def test_does_to_some_runs_of_a_workflow_what_is_done_to_every_second(self):
        """An even number of workflows, which take turns at numbered runs, would give each one runs of one parity."""
        begun = [plan for plan in workflow_plans() if not plan.schedule and not plan.is_inner]
        every = {deed.every for plan in begun for deed in plan.deeds} | {len(SIZES)}
        assert {gcd(len(begun), number) for number in every} == {1}

    def test_makes_inner_workflows_before_those_that_name_them(self):
        made: set[str] = set()
        for plan in workflow_plans():
            inner = {task.inner for task in plan.tasks.values() if task.inner}
            assert inner <= made
            made |= {plan.name} if plan.is_inner else set()

    def test_is_walked_by_the_judge_as_its_schedules_fire(self):
        until = NOW.timestamp() + 300
        for plan in drawn("long"):
            job = plan.made({"id": plan.name, "created_at": NOW.isoformat()}, at=NOW.timestamp())
            given = plan.schedule
            if given["type"] != "cron":
                continue
            schedule = Schedule(type=ScheduleType.CRON, cron=given["cron"], cron_dialect="quartz")
            ends = datetime.fromtimestamp(until, UTC)
            assert named(job, until=until) == fire_times(schedule, after=NOW, until=ends, limit=10_000)


class TestTheFaults:
    def test_each_have_limits(self):
        assert FAULTS.keys() <= OF_FAULT.keys()

    def test_of_the_short_profile_are_those_that_the_plan_names(self):
        assert [fault.number for fault in PROFILES["short"].faults] == [1, 2, 5, 8]
