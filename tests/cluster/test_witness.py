"""The witness sees a write that was not its writer's to make; strikes would not show writes that it cannot catch."""

from typing import Any

import pytest
from django.db import connection

from jobs.models import Trigger
from tests.cluster import witness
from tests.factories import make_job, make_trigger, take_lease

pytestmark = pytest.mark.django_db


class Here:
    """The test's own database in place of a stage's."""

    def execute(self, statements: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statements)

    def query(self, statement: str) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


@pytest.fixture
def here() -> Here:
    here = Here()
    witness.install(here)  # type: ignore[arg-type]
    return here


def write_as(name: str, trigger: Trigger, **columns: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('application_name', %s, false)", [name])
        Trigger.objects.filter(id=trigger.id).update(**columns)
        cursor.execute("SELECT set_config('application_name', 'tests', false)")


def judged(here: Here) -> str:
    return witness.assert_nobody_wrote_what_was_not_theirs(here)  # type: ignore[arg-type]


class TestWitness:
    def test_has_nothing_against_a_worker_that_ends_what_it_has_in_hand(self, here: Here) -> None:
        trigger = make_trigger(state="running", worker="worker1@host")
        write_as("worker1", trigger, state="succeeded", lease_expires_at=None)
        assert judged(here).startswith("1 writes")

    @pytest.mark.parametrize(
        "columns",
        [{"state": "running", "worker": "worker2@host"}, {"state": "retrying"}, {"state": "succeeded"}],
        ids=str,
    )
    def test_catches_a_worker_that_ends_what_it_lost(self, here: Here, columns: dict[str, Any]) -> None:
        trigger = make_trigger(**columns)
        write_as("worker1", trigger, state="succeeded", lease_expires_at=None)
        with pytest.raises(AssertionError, match="1 writes"):
            judged(here)

    def test_has_nothing_against_a_worker_that_takes_back_a_charge_and_catches_what_it_writes_beside(
        self, here: Here
    ) -> None:
        trigger = make_trigger(state="retrying", worker="worker1@host", crash_count=1)
        write_as("worker1", trigger, crash_count=0, budget_start=1)
        assert judged(here).startswith("0 writes")
        write_as("worker1", trigger, crash_count=1, fence=trigger.fence + 1)
        with pytest.raises(AssertionError, match="1 writes"):
            judged(here)

    def test_has_nothing_against_a_beat_that_leads_and_catches_one_that_was_deposed(self, here: Here) -> None:
        trigger = make_trigger(make_job())
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('application_name', 'beat1', false)")
        take_lease(holder="host:1:a")
        write_as("beat1", trigger, held=True)
        assert judged(here).startswith("1 writes")
        with connection.cursor() as cursor:
            cursor.execute("UPDATE jobs_lease SET expires_at = clock_timestamp() - interval '1 s'")
            cursor.execute("SELECT set_config('application_name', 'beat2', false)")
        take_lease(holder="host:2:b")
        write_as("beat2", trigger, held=False)
        assert judged(here).startswith("2 writes")
        write_as("beat1", trigger, held=True)
        with pytest.raises(AssertionError, match="1 writes"):
            judged(here)
