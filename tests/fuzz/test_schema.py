"""Requests that match or break the description of the API, which schemathesis sends with keys of two tenants.

``FUZZ_SECONDS=600`` for long; the short run of the tests is the same each time.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.factories import make_attempt, make_job, make_tenant, make_trigger
from tests.interfaces.api.caller import Caller

LONG = "FUZZ_SECONDS" in os.environ
SECONDS = int(os.environ.get("FUZZ_SECONDS", "8"))
HERE = Path(__file__).parent
EVERY = ("read", "write", "worker", "admin")


@pytest.fixture
def keys(transactional_db: None, job_types: None) -> list[str]:
    """A key with every scope for each of two tenants. Both have rows that can be found."""
    callers = [Caller(make_tenant(), scopes=EVERY) for _ in range(2)]
    for caller in callers:
        caller.put("/job-types/invoice.render", {"payload_schema": {"type": "object"}})
        for state in ("pending", "dead", "succeeded"):
            make_attempt(make_trigger(make_job(caller.tenant), state), "failed")
    return [str(caller.token) for caller in callers]


@pytest.mark.usefixtures("requests_end")
@pytest.mark.parametrize("number", [0, 1] if LONG else [0])
def test_the_api_answers_as_it_is_described(
    number: int, keys: list[str], live_server: Any, tmp_path: Path
) -> None:
    description = tmp_path / "schema.yaml"
    call_command("spectacular", "--file", str(description))
    seconds = max(1, SECONDS // 2)
    repeatable = [] if LONG else ["--generation-deterministic", "--phases=examples,coverage"]
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", f"--config-file={HERE / 'schemathesis.toml'}",
            "run", str(description), f"--url={live_server.url}",
            f"--header=Authorization: Bearer {keys[number]}", "--checks=all",
            # Ten seconds are no fault on a machine that others use as well.
            "--max-response-time=30",
            # tests/fuzz/refusals.py takes its place: it knows single fields.
            "--exclude-checks=positive_data_acceptance", f"--max-time={seconds}",
            "--generation-allow-x00=true", "--continue-on-failure", "--no-color",
            "--suppress-health-check=all", "--request-timeout=30", *repeatable,
        ],
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.fuzz.refusals", "PYTHONPATH": str(HERE.parent.parent)},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=seconds + 240,
    )  # fmt: skip
    report = os.environ.get("FUZZ_REPORT")
    if report:
        Path(f"{report}.{number}").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
