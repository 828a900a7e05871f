"""Plans that connections keep: made while tables were empty, they must still be right when these are full."""

import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from django.db import connection
from django.db.backends.signals import connection_created

from jobs.store import db
from tests.store.plans.ledger import BIG, MIXED, fill
from tests.store.plans.parameters import PARAMETERS
from tests.store.plans.parameters.sample import sample
from tests.store.plans.planner import analyze, filled_tables, leading_columns, nodes, whole_reads

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

KEPT = {name: query for name, query in db.all_queries().items() if query.headers.get("plan") == ["kept"]}


def prepared() -> dict[str, tuple[str, int]]:
    """The statements that this connection keeps: the first comment of each to its name and number of parameters."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement, name, cardinality(parameter_types) FROM pg_prepared_statements")
        return {statement.splitlines()[0]: (name, count) for statement, name, count in cursor.fetchall()}


def kept_plan(name: str, parameters: int) -> dict[str, Any]:
    """The kept plan. It is the same for all parameters."""
    with connection.cursor() as cursor:
        given = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {name} {given}")
        [found] = cursor.fetchone()
    [explained] = json.loads(found) if isinstance(found, str) else found
    plan: dict[str, Any] = explained["Plan"]
    return plan


@pytest.fixture
def keeping() -> Iterator[None]:
    """This connection, set up like a beat's or a worker's."""
    with mock.patch.object(db, "_keeping", False), mock.patch.object(connection_created, "connect"):
        db.keep_plans()
        db._settle(connection)
        yield
        connection.connection.prepare_threshold = None
        with connection.cursor() as cursor:
            cursor.execute("RESET plan_cache_mode; RESET enable_seqscan; DEALLOCATE ALL")


@pytest.fixture(params=["never analyzed", "analyzed"])
def empty_tables(request: pytest.FixtureRequest) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(BIG)} CASCADE")
    if request.param == "analyzed":
        analyze(*BIG)


class TestKeptPlans:
    def test_are_those_of_the_hot_path(self) -> None:
        assert {"execution.claim", "execution.finish", "dispatch.dispatch", "jobs.materialize"} <= KEPT.keys()

    @pytest.mark.usefixtures("keeping", "empty_tables")
    def test_made_over_empty_tables_read_no_big_table_whole_once_they_are_full(self) -> None:
        taken = sample()
        for name, query in KEPT.items():
            for _ in range(db.KEEP_AFTER + 2):
                query(**PARAMETERS[name](taken))
        names = prepared()
        assert len(names) == len(KEPT)
        fill(MIXED)
        tables, leading = filled_tables(), leading_columns()
        found = {
            statement: whole_reads(kept_plan(name, count), tables, leading)
            for statement, (name, count) in names.items()
        }
        assert {statement: reads for statement, reads in found.items() if reads} == {}

    @pytest.mark.usefixtures("keeping", "empty_tables")
    def test_cannot_look_for_a_jobs_triggers_in_an_index_of_others(self) -> None:
        """While few wait or are in flight, an index of them all costs as little; kept, it is read whole for each job.

        Without the indexes by job, the planner takes any other that it may.
        """
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE jobs_trigger DROP CONSTRAINT trigger_one_per_firing")
            cursor.execute("DROP INDEX trigger_unfinished_by_job")
        facts, taken = KEPT["dispatch.facts"], sample()
        for _ in range(db.KEEP_AFTER + 2):
            facts(**PARAMETERS["dispatch.facts"](taken))
        scans = {
            node["Alias"]: node.get("Index Name")
            for node in nodes(kept_plan(*prepared()[facts.sql.splitlines()[0]]))
            if node.get("Relation Name") == "jobs_trigger"
        }
        del scans["k"]  # of a concurrency key, not of a job
        assert scans.keys() == {"t", "t_1", "newer", "other", "r"}
        assert set(scans.values()) <= {None, "jobs_trigger_pkey"}, scans


class TestAnotherDatabaseOfTheTeams:
    def test_is_left_as_it_is(self) -> None:
        """The team's handlers reach it over Django's connections, too. It need not even be Postgres."""
        team = connection.copy(alias="team")
        with mock.patch.object(db, "_keeping", False):
            db.keep_plans()
            try:
                with team.cursor() as cursor:
                    cursor.execute(
                        "SELECT current_setting('enable_seqscan'), current_setting('plan_cache_mode')"
                    )
                    assert cursor.fetchone() == ("on", "auto")
            finally:
                connection_created.disconnect(db._settle)
                team.close()
