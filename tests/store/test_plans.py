"""The plan of every named query: none may read the whole of a big table, whichever statistics the planner has.

Bulk loads, restores and bursts leave statistics behind the truth for minutes. A statement that then turns to reading a
table from end to end takes the scheduler down just when it is busiest. So each is explained over a ledger that was
analyzed, never analyzed, and analyzed while it looked quite different.
"""

import pytest
from django.db import connection

from jobs.models import CatchUp, Job, JobVersion, SkippedRange, Trigger
from jobs.store import db
from tests import factories
from tests.store.conftest import make_new
from tests.store.plans.ledger import BIG, MIXED, TRIGGERS, fill, note_events
from tests.store.plans.parameters import PARAMETERS
from tests.store.plans.parameters.sample import sample
from tests.store.plans.planner import (
    analyze,
    filled_tables,
    generic_plan_of,
    leading_columns,
    most_rows,
    nodes,
    plan_of,
    whole_reads,
)

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

#: Statements that a person asks for now and then. They may be slow for the minute until statistics catch up with a bulk
#: load.
COLD = {"lifecycle.replay"}
FEED = {"events.first", "events.page", "notices.read"}


def offenders() -> dict[str, list[str]]:
    taken, tables, leading = sample(), filled_tables(), leading_columns()
    found = {
        name: whole_reads(plan_of(query, PARAMETERS[name](taken)), tables, leading)
        for name, query in db.all_queries().items()
    }
    return {name: names for name, names in found.items() if names}


@pytest.fixture(autouse=True)
def new_tables() -> None:
    make_new(*BIG)


class TestPlans:
    def test_know_parameters_for_every_query(self) -> None:
        assert PARAMETERS.keys() == db.all_queries().keys()

    def test_exist_over_empty_tables(self) -> None:
        taken = sample()
        assert all(plan_of(query, PARAMETERS[name](taken)) for name, query in db.all_queries().items())

    def test_read_no_big_table_whole_when_it_was_analyzed(self) -> None:
        fill(MIXED)
        analyze(*BIG)
        assert offenders() == {}

    def test_read_no_big_table_whole_where_a_past_is_large_and_its_end_near(self) -> None:
        """As right after an outage, when all catch-ups are unfinished and statistics know of none."""
        fill(MIXED)
        analyze(*BIG)
        CatchUp.objects.update(finished_at=None)
        named = PARAMETERS["jobs.take_due"](sample()) | {"ids": sample().job_ids}
        plan = plan_of(db.all_queries()["jobs.take_due"], named)
        assert (offenders(), whole_reads(plan, filled_tables(), leading_columns())) == ({}, [])

    def test_read_no_big_table_whole_when_it_was_never_analyzed(self) -> None:
        fill(MIXED)
        assert offenders() == {}

    def test_read_no_big_table_whole_when_it_was_analyzed_while_empty(self) -> None:
        analyze("jobs_trigger", "jobs_job")
        fill(MIXED)
        assert offenders().keys() <= COLD

    @pytest.mark.parametrize("state", ["pending", "succeeded"])
    def test_read_no_big_table_whole_when_it_looked_otherwise_while_analyzed(self, state: str) -> None:
        fill({state: 100})
        analyze("jobs_trigger", "jobs_job")
        for model in (Trigger, CatchUp, SkippedRange, JobVersion, Job):
            model.objects.all().delete()
        fill(MIXED)
        assert offenders() == {}

    def test_read_the_feed_in_its_order_where_a_day_was_vacuumed_without_a_row(self) -> None:
        """As after transactions that were rolled back: the day then counts as empty, however many rows it holds."""
        make_new("jobs_event")
        note_events(1_000)
        analyze("jobs_event")
        note_events(5_000)
        fill(MIXED)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE pg_class SET reltuples = 0 WHERE oid IN ("
                "SELECT inhrelid FROM pg_inherits WHERE inhparent = 'jobs_event'::regclass)"
            )
        assert {name: names for name, names in offenders().items() if name in FEED} == {}


class TestKeptPlans:
    """They are made once, for no parameters in particular, and serve all parameters."""

    @pytest.mark.parametrize("analyzed", [True, False])
    def test_expect_few_triggers_whatever_waits(self, analyzed: bool) -> None:
        """As beside very many jobs: all waiting triggers were made ahead of their time, and none was announced."""
        fill({"pending": 100}, announced=False)
        if analyzed:
            analyze(*BIG)
        taken = sample()
        expected = {
            name: most_rows(generic_plan_of(query, PARAMETERS[name](taken)))
            for name, query in db.all_queries().items()
            if "plan" in query.headers
        }
        assert expected.keys() >= {"dispatch.news"}
        assert {name: rows for name, rows in expected.items() if rows > TRIGGERS / 10} == {}


class TestTheLatestOfAJob:
    """Every read of a job asks this of the job's history, however long that is."""

    @pytest.mark.parametrize(("newest", "most"), [("succeeded", 10), ("failed", 3_000)])
    def test_is_found_at_the_end_of_its_attempts(self, newest: str, most: int) -> None:
        trigger = factories.make_trigger(factories.make_job(), "dead")
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_attempt "
                "    (id, trigger_id, job_id, tenant_id, number, fence, worker, state, started_at) "
                "SELECT lpad(to_hex(n), 32, '0')::uuid, %s, %s, %s, n, 1, '', %s, now() "
                "FROM generate_series(1, 5000) n",
                [trigger.id, trigger.job_id, trigger.tenant_id, newest],
            )
            query, named = db.all_queries()["outcomes.latest"], {"attempts": 1000, "most": 100}
            cursor.execute(
                f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query.sql}", named | {"job_id": trigger.job_id}
            )
            plan = cursor.fetchone()[0][0]["Plan"]
        read = sum(
            node["Actual Rows"] * node["Actual Loops"] for node in nodes(plan) if "Relation Name" in node
        )
        assert 0 < read <= most
