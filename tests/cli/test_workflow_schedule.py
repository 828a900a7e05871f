"""``workflows schedule`` from the command line."""

from pathlib import Path

import pytest

from jobs.models import Workflow
from tests.cli.conftest import Command
from tests.factories import make_tenant
from tests.workflows.playing import begin, make_workflow

pytestmark = pytest.mark.django_db(transaction=True)
DAILY = "schedule: {type: cron, cron: '0 2 * * *'}\n"
ETL = "name: etl\ntasks:\n  load: {job_type: noop}\n"
STRETCH = ("--start", "2026-01-01T00:00:00Z", "--end", "2026-01-05T00:00:00Z")


@pytest.fixture
def etl(carillon: Command, tmp_path: Path) -> Workflow:
    path = tmp_path / "etl.yaml"
    path.write_text(ETL + DAILY)
    assert carillon("workflows", "apply", "-f", str(path)).code == 0
    return Workflow.objects.get()


class TestASchedule:
    def test_is_paused_and_resumed_by_the_workflows_name(self, carillon: Command, etl: Workflow) -> None:
        run = begin(etl)
        paused = carillon(
            "workflows", "schedule", "pause", "etl", "--reason", "move", "--until", "2090-01-31T02:00:00Z"
        )
        assert paused.code == 0, paused.err
        assert paused.out.splitlines()[1].split()[:4] == ["etl", "paused", "move", "2090-01-31T02:00:00Z"]
        assert carillon("workflows", "list", "-o", "json").json[0]["schedule_status"] == "paused"
        run.refresh_from_db()
        assert run.paused_at is None
        resumed = carillon("workflows", "schedule", "resume", str(etl.id), "-o", "json").json
        assert (resumed["schedule_status"], resumed["schedule_status_reason"]) == ("active", "")

    def test_is_told_from_a_run(self, carillon: Command, etl: Workflow) -> None:
        run = begin(etl)
        assert carillon("workflows", "pause", "etl").code == 2
        assert carillon("workflows", "pause", str(run.id)).code == 0
        run.refresh_from_db()
        assert run.paused_at is not None
        assert carillon("workflows", "list", "-o", "json").json[0]["schedule_status"] == "active"

    def test_is_backfilled_once_counted_and_cancelled(self, carillon: Command, etl: Workflow) -> None:
        line = ("workflows", "schedule", "backfill", "etl", *STRETCH)
        counted = carillon(*line, "--dry-run", "-o", "json").json
        assert (counted["count"], counted["existing"]) == (4, 0)
        assert carillon("workflows", "schedule", "backfills", "etl", "-o", "json").json == []
        begun = carillon(*line, "-o", "json").json
        assert begun["count"] == 4
        [listed] = carillon("workflows", "schedule", "backfills", "etl", "-o", "json").json
        assert listed["id"] == begun["id"]
        ended = carillon("workflows", "schedule", "cancel-backfill", "etl", begun["id"], "-o", "json")
        assert ended.code == 0, ended.err
        [listed] = carillon("workflows", "schedule", "backfills", "etl", "-o", "json").json
        assert listed["finished_at"] is not None

    def test_refuses_what_the_server_refuses(self, carillon: Command, etl: Workflow) -> None:
        wrong = carillon("workflows", "schedule", "backfill", "etl", "--start", "x", "--end", "y")
        assert (wrong.code, "start → " in wrong.err) == (1, True)
        past = carillon("workflows", "schedule", "pause", "etl", "--until", "2020-01-31T02:00:00Z")
        assert (past.code, "until → " in past.err) == (1, True)

    def test_has_to_be_there(self, carillon: Command, tmp_path: Path) -> None:
        path = tmp_path / "bare.yaml"
        path.write_text(ETL)
        carillon("workflows", "apply", "-f", str(path))
        for verb in ("pause", "resume", "backfills"):
            refused = carillon("workflows", "schedule", verb, "etl")
            assert "has no schedule" in refused.err
            assert refused.code != 0
            assert carillon("workflows", "schedule", verb, "other").code == 3

    def test_of_another_tenant_is_not_there(self, carillon: Command) -> None:
        schedule = {"type": "cron", "cron": "@daily"}
        foreign = make_workflow(make_tenant(), tasks=["load"], name="etl", schedule=schedule)
        for reference in ("etl", str(foreign.id)):
            assert carillon("workflows", "schedule", "pause", reference).code == 3
