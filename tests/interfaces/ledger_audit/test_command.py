"""``audit_firings``: the words of the command, the jobs it covers, and its exit code."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from jobs.models import Job
from tests import factories
from tests.factories import HOUR, MINUTE, SECOND
from tests.interfaces.ledger_audit.ledger import beat, create

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output of the command."""
    out = StringIO()
    try:
        call_command("audit_firings", *arguments, stdout=out)
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


class TestTheCommand:
    @pytest.fixture
    def job(self, clock: Any) -> Job:
        job = create()
        clock(HOUR)
        beat()
        clock(HOUR + 10 * SECOND)
        return job

    def test_says_how_much_it_audited(self, job: Job) -> None:
        assert run() == (0, "60 instants of 1 jobs audited; differences: none\n")

    def test_names_the_instant_and_ends_with_1_when_a_trigger_was_deleted_by_hand(self, job: Job) -> None:
        gone = job.created_at + 7 * MINUTE
        job.triggers.filter(scheduled_for=gone).delete()
        code, text = run()
        assert code == 1
        stamp = gone.isoformat().replace("+00:00", "Z")
        assert f"missing: {stamp} of {job.tenant.slug}/nightly ({job.id})" in text
        assert text.endswith("differences: 1 missing\n")

    def test_gives_json(self, job: Job) -> None:
        job.triggers.all().delete()
        code, text = run("--json")
        report = json.loads(text)
        assert code == 1
        assert (report["jobs"], report["instants"], report["by_kind"]) == (1, 60, {"missing": 60})
        assert len(report["examples"]) == 10

    def test_looks_at_one_job_or_tenant_only(self, job: Job) -> None:
        other = create(name="other")
        beat()
        job.triggers.all().delete()
        assert run("--tenant", other.tenant.slug)[0] == 0
        assert run("--job", str(other.id))[0] == 0
        assert run("--job", "other", "--tenant", other.tenant.slug)[0] == 0
        assert run("--job", "nightly", "--tenant", job.tenant.slug)[0] == 1

    def test_looks_at_a_stretch_of_time_only(self, job: Job) -> None:
        job.triggers.filter(scheduled_for=job.created_at + 7 * MINUTE).delete()
        late, early = ((job.created_at + minutes * MINUTE).isoformat() for minutes in (8, 6))
        assert run("--from", late)[0] == 0
        assert run("--to", early)[0] == 0
        assert run("--from", early, "--to", late)[0] == 1

    @pytest.mark.parametrize(
        "arguments", [["--job", "nightly"], ["--job", str(factories.UUID(int=7))], ["--from", "yesterday"]]
    )
    def test_refuses_what_names_nothing(self, arguments: list[str]) -> None:
        with pytest.raises(CommandError):
            run(*arguments)
