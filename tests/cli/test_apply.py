"""``carillon apply`` and ``diff``: files, and their effect on jobs."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from tests import factories
from tests.cli.conftest import ApiAdapter, Command
from tests.interfaces.api.caller import Caller

TWO = """\
owner: billing
jobs:
- name: a
  job_type: noop
  schedule: {type: cron, cron: "0 2 * * *", timezone: Asia/Kolkata}
- name: b/c
  job_type: noop
  schedule: {type: interval, every_seconds: 60}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text(TWO)
    return path


def versions() -> dict[str, Any]:
    return dict(Job.objects.filter(deleted_at=None).values_list("name", "version"))


class TestApply:
    def test_creates_and_the_second_time_changes_nothing(self, carillon: Command, file: Path) -> None:
        first = carillon("apply", "-f", str(file))
        assert (first.code, first.out) == (0, "+ a\n+ b/c\n"), first.err
        assert "2 created: done." in first.err
        second = carillon("apply", "-f", str(file))
        assert (second.code, second.out) == (0, "")
        assert "Nothing to change in 2 jobs." in second.err
        assert versions() == {"a": 1, "b/c": 1}

    def test_replaces_what_differs_and_shows_it_field_by_field(self, carillon: Command, file: Path) -> None:
        carillon("apply", "-f", str(file))
        file.write_text(TWO.replace("0 2 * * *", "0 3 * * *"))
        applied = carillon("apply", "-f", str(file))
        assert applied.out == "~ a\n    schedule.cron: 0 2 * * * → 0 3 * * *\n"
        assert versions() == {"a": 2, "b/c": 1}

    def test_a_dry_run_and_a_diff_change_nothing(self, carillon: Command, file: Path) -> None:
        assert carillon("apply", "-f", str(file), "--dry-run").out == "+ a\n+ b/c\n"
        assert carillon("diff", "-f", str(file)).code == 6
        assert versions() == {}
        carillon("apply", "-f", str(file))
        assert carillon("diff", "-f", str(file)).code == 0

    def test_of_a_strict_tenant_names_the_version_it_compared(
        self, carillon: Command, owner: Caller, file: Path
    ) -> None:
        assert owner.tenant is not None
        owner.tenant.require_if_match = True
        owner.tenant.save()
        assert carillon("apply", "-f", str(file)).code == 0
        file.write_text(TWO.replace("every_seconds: 60", "every_seconds: 90"))
        assert carillon("apply", "-f", str(file)).code == 0
        assert versions() == {"a": 1, "b/c": 2}


class TestAJobThatWillNotFire:
    @pytest.mark.parametrize(
        ("status", "told"),
        [
            ("cancelled", "a is cancelled and will not fire: delete it, then apply again."),
            ("paused", "a is paused and will not fire until it is resumed: The target answered 410 Gone."),
            ("completed", "a is completed: its schedule has no further firings."),
        ],
    )
    @pytest.mark.parametrize("command", ["apply", "diff"])
    def test_is_named_with_its_status(
        self, carillon: Command, file: Path, status: str, told: str, command: str
    ) -> None:
        carillon("apply", "-f", str(file))
        reason = "The target answered 410 Gone." if status == "paused" else ""
        Job.objects.filter(name="a").update(status=status, status_reason=reason)
        answer = carillon(command, "-f", str(file))
        assert (answer.code, answer.out) == (0, "")
        assert [line for line in answer.err.splitlines() if line.startswith("a is")] == [told]
        documents = json.loads(carillon(command, "-f", str(file), "-o", "json").out)
        assert {step["name"]: step["status"] for step in documents} == {"a": status, "b/c": "active"}

    def test_is_named_though_it_is_replaced(self, carillon: Command, file: Path) -> None:
        carillon("apply", "-f", str(file))
        carillon("jobs", "pause", "a")
        file.write_text(TWO.replace("0 2 * * *", "0 3 * * *"))
        answer = carillon("apply", "-f", str(file))
        assert "a is paused and will not fire until it is resumed.\n" in answer.err
        assert "1 replaced, 1 as they were: done." in answer.err


class TestPrune:
    def test_deletes_the_owners_jobs_that_are_in_no_file(
        self, carillon: Command, owner: Caller, file: Path
    ) -> None:
        factories.make_job(owner.tenant, name="stranger")
        carillon("apply", "-f", str(file))
        file.write_text(TWO[: TWO.index("- name: b/c")])
        refused = carillon("apply", "-f", str(file), "--prune")
        assert (refused.code, refused.out) == (2, "- b/c\n")
        assert "1 jobs would be deleted; say --yes" in refused.err
        assert set(versions()) == {"a", "b/c", "stranger"}
        assert carillon("apply", "-f", str(file), "--prune", "--yes").code == 0
        assert set(versions()) == {"a", "stranger"}

    def test_needs_an_owner(self, carillon: Command, file: Path, api: ApiAdapter) -> None:
        file.write_text(TWO.replace("owner: billing\n", ""))
        assert carillon("apply", "-f", str(file), "--prune", "--yes").code == 2
        assert api.sent == []

    def test_does_not_take_an_empty_file_for_the_end_of_all_jobs(self, carillon: Command, file: Path) -> None:
        carillon("apply", "-f", str(file))
        file.write_text("owner: billing\njobs: []\n")
        assert carillon("apply", "-f", str(file), "--prune", "--yes").code == 2
        assert set(versions()) == {"a", "b/c"}


class TestBadFiles:
    def test_one_refusal_leaves_all_as_it_was_and_names_each_line(
        self, carillon: Command, file: Path
    ) -> None:
        file.write_text(TWO.replace("0 2 * * *", "0 99 * * *") + "  shedule: 7\n")
        refused = carillon("apply", "-f", str(file))
        assert refused.code == 1
        assert f"{file}:5: a: schedule.cron → " in refused.err
        assert f"{file}:9: b/c: shedule → " in refused.err
        assert versions() == {}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (TWO.replace("name: b/c", "name: a"), "jobs.yaml:6: name → 'a' repeats"),
            (TWO.replace("name: b/c", "title: b"), "jobs.yaml:6: name → Is required"),
            (TWO + "extra: 1\n", "jobs.yaml:9: extra → Unknown"),
            ("owner: x\njobs: {}\n", "jobs.yaml:2: jobs → Must be a list"),
            ("owner: a,b=c\njobs: []\n", "owner → 'a,b=c' cannot be a label"),
            ("- 7\n", "jobs.yaml:1: A job is a mapping"),
            (TWO.replace('"0 2 * * *"', "* * * * *"), "needs quotes"),
            (TWO + "--- \nowner: other\njobs: []\n", "Several owners"),
            ("jobs: [\n", "jobs.yaml:2:"),
        ],
    )
    def test_are_refused_before_anything_is_sent(
        self, carillon: Command, api: ApiAdapter, file: Path, text: str, message: str
    ) -> None:
        file.write_text(text)
        refused = carillon("apply", "-f", str(file))
        assert refused.code == 2
        assert message in refused.err
        assert api.sent == []
