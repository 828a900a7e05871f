"""The suite can fail: the judge's findings in runs in which the engine was broken on purpose.

The histories in ``recorded`` are of real clusters, cut to one job each: ``python -m chaos sabotage --keep
tests/chaos/recorded`` makes them again.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import DatabaseError, connection, transaction

from chaos import history
from chaos.judge import judge
from chaos.sabotage import act
from chaos.sabotage.catalogue import SABOTAGES, Edit
from chaos.sabotage.rehearsal import caught, evidence
from jobs.store import db
from tests.chaos.histories import a_job, a_run, delivered_at, firing, without
from tests.chaos.runs import a_run_of, of_task
from tests.chaos.tales import STORIES

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).parent / "recorded"


class TestSabotage:
    @pytest.mark.parametrize("name", SABOTAGES)
    def test_is_caught_by_the_judge(self, name):
        """In the control nothing is caught."""
        verdict = judge(history.read(RECORDED / f"{name}.jsonl"))
        assert verdict.firings
        assert caught(SABOTAGES[name], verdict), verdict.summary

    @pytest.mark.parametrize("name", SABOTAGES)
    def test_is_a_change_to_the_present_statements(self, name):
        changed = act.edited(SABOTAGES[name].edits)
        present = db.all_queries()
        assert all(query.sql != present[name].sql for name, query in changed.items())
        assert not SABOTAGES[name].code or callable(getattr(act, SABOTAGES[name].code))

    @pytest.mark.django_db
    @pytest.mark.parametrize("name", [name for name, each in SABOTAGES.items() if each.of_workflows])
    def test_is_a_change_to_the_present_functions(self, name):
        """It can be made once: the second time the guard is not there."""
        with connection.cursor() as cursor:
            shown = "SELECT pg_get_functiondef('carillon_settle_run(uuid)'::regprocedure)"
            cursor.execute(shown)
            [before] = cursor.fetchone()
            cursor.execute(SABOTAGES[name].schema)
            cursor.execute(shown)
            assert cursor.fetchone() != (before,)
            changed_meanwhile = pytest.raises(DatabaseError, match="not once: tell chaos/sabotage/catalogue")
            with changed_meanwhile, transaction.atomic():
                cursor.execute(SABOTAGES[name].schema)

    def test_says_so_when_a_statement_has_changed_meanwhile(self):
        with pytest.raises(LookupError, match=r"execution.claim holds 'AND x' 0 times.*catalogue"):
            act.edited([Edit("execution.claim", "AND x")])

    def test_changes_the_process_that_is_told_to_and_no_other(self):
        before = db.queries("reap")["expired_leases"].sql
        code = "import chaos.sabotage.act; from jobs.store import db; print(db.queries('reap')['expired_leases'].sql)"
        told = {"CHAOS_SABOTAGE": "lease", "DJANGO_SETTINGS_MODULE": "scheduler_project.settings"}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=told, capture_output=True, text=True, check=True
        )
        guard = "AND t.lease_expires_at < carillon_now()"
        assert guard in before
        assert done.stdout.strip() == before.replace(guard, "").strip()

    def test_has_no_switch_in_the_engine(self):
        packages = ("jobs", "tenants", "scheduler_project")
        sources = [path for package in packages for path in (ROOT / package).rglob("*.py")]
        assert not [path for path in sources if "sabotage" in path.read_text().lower()]


class TestEvidence:
    def test_is_one_job_that_convicts_and_what_is_of_no_job(self):
        records = without(
            a_run(a_job("a"), a_job("b")), lambda r: delivered_at(firing(2))(r) and r.job_id == "b"
        )
        kept = list(evidence(SABOTAGES["forgotten"], records))
        assert {r.job_id for r in kept if hasattr(r, "job_id")} == {"b"}
        assert caught(SABOTAGES["forgotten"], judge(kept))
        assert not caught(SABOTAGES["early"], judge(kept))

    def test_is_one_run_that_convicts_where_workflows_show_it(self):
        story = {**STORIES["fan"], "gather": [(0.3, 200)]}
        records = a_run(
            a_job(), more=[*a_run_of("fan", number=1), *a_run_of("fan", number=2, begins=20, story=story)]
        )
        kept = list(evidence(SABOTAGES["fan-in"], records))
        assert [r.number for r in kept if isinstance(r, history.RunAsked)] == [2]
        assert not [r for r in kept if isinstance(r, history.JobMade)]
        assert caught(SABOTAGES["fan-in"], judge(kept))
        assert judge(evidence(SABOTAGES["child-key"], records)).runs == 2

    def test_has_the_calls_about_the_run_and_what_a_retry_found(self):
        records = a_run(a_job(), more=[*a_run_of("retried"), *a_run_of("passed", number=2)])
        broken = without(records, lambda r: of_task("beside")(r) and r.attempt == 1 and "run2" not in r.key)
        kept = list(evidence(replace(SABOTAGES["fan-in"], caught_as=frozenset({"lost"})), broken))
        assert {r.run_id for r in kept if isinstance(r, history.Steered)} == {"run1"}
        assert [r.reading for r in kept if isinstance(r, history.RunSeen)] == [0, 0, 2]

    def test_of_a_job_has_no_runs(self):
        records = a_run(a_job(), more=a_run_of("fan"))
        assert judge(evidence(SABOTAGES["forgotten"], records)).runs == 0
