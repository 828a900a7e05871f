"""Migration 0011 tells the planner of hidden jobs, where there are jobs."""

from importlib import import_module

import pytest
from django.db import connection

from tests import factories

ANALYZE = import_module("jobs.migrations.0011_analyze_jobs")._ANALYZE


def share_without_workflow() -> list[float]:
    with connection.cursor() as cursor:
        cursor.execute(ANALYZE)
        cursor.execute(
            "SELECT null_frac FROM pg_stats WHERE tablename = 'jobs_job' AND attname = 'workflow_id'"
        )
        return [share for (share,) in cursor.fetchall()]


@pytest.mark.django_db
def test_jobs_are_known_to_be_of_no_workflow() -> None:
    factories.make_job()
    assert share_without_workflow() == [1.0]
