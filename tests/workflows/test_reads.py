"""The ends of tasks read rows by their keys, as many as there are tasks, whichever statistics the planner has."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction

from jobs.models import WorkflowRun
from tests import factories
from tests.workflows.playing import begin, claim_due, finish, make_workflow, states

pytestmark = pytest.mark.django_db(transaction=True)
WIDTH = 300
PARTS = [f"part{n}" for n in range(WIDTH)]
FAN = (*(("split", part) for part in PARTS), *((part, "gather") for part in PARTS))
#: Reads of task runs for each that starts or ends. Some of these settle its run, or are for maps, or for its versions.
MOST_A_TASK = 12
_READ = """
    SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::int
    FROM pg_stat_xact_user_tables WHERE relname = 'jobs_taskrun'
"""


def read_by(ends: Callable[[], None]) -> int:
    """The number of rows of task runs that are read by ``ends`` and its commit."""

    def read() -> int:
        cursor.execute(_READ)
        return int(cursor.fetchone()[0])

    with transaction.atomic(), connection.cursor() as cursor:
        before = read()  # reads of earlier transactions, which the server has not added up yet
        ends()
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        return read() - before


def believe(about: str) -> None:
    """Take the statistics of the present rows. There are none of later rows."""
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {about}")


@pytest.fixture(params=["of no rows", "of runs that have ended"])
def statistics(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fanned(statistics: str) -> WorkflowRun:
    """A fan of which no task has ended."""
    workflow = make_workflow(factories.make_tenant(max_in_flight=100_000), *FAN)
    believe("jobs_workflowtask, jobs_workflowedge, jobs_job")
    if statistics != "of no rows":
        for _ in range(3):
            ended = begin(workflow)
            while rows := claim_due():
                finish(rows, lambda _: "succeeded")
            assert set(states(ended).values()) == {"succeeded"}
    believe("jobs_taskrun, jobs_trigger, jobs_workflowrun")
    return begin(workflow)


class TestAFan:
    def test_starts_by_reading_each_task_so_often(self, statistics: str) -> None:
        run = fanned(statistics)
        rows = claim_due()
        assert 0 < read_by(lambda: finish(rows, lambda _: "succeeded")) <= MOST_A_TASK * WIDTH
        assert list(states(run).values()).count("started") == WIDTH

    def test_ends_by_reading_each_task_so_often(self, statistics: str) -> None:
        run = fanned(statistics)
        finish(claim_due(), lambda _: "succeeded")
        rows = claim_due()
        assert len(rows) == WIDTH
        assert 0 < read_by(lambda: finish(rows, lambda _: "succeeded")) <= MOST_A_TASK * WIDTH
        assert states(run)["gather"] == "started"
