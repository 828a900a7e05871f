"""Requests that match or break the description of the API, which schemathesis sends with keys of two tenants.

``FUZZ_SECONDS=600`` for long; the short run of the tests is the same each time.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from drf_spectacular.generators import SchemaGenerator

from jobs.shapes.terms import LINE, Line
from tests.factories import make_attempt, make_job, make_tenant, make_trigger
from tests.fuzz import refusals
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


def test_each_line_of_text_may_be_refused() -> None:
    """No regular expression of OpenAPI says which characters are printable, so each such text has its row.

    Filters are no such texts: they are only compared.
    """
    document = SchemaGenerator().get_schema(request=None, public=True)
    shapes = document["components"]["schemas"]
    lines = [
        (operation["operationId"], path)
        for methods in document["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
        for path in _lines(operation["requestBody"]["content"]["application/json"]["schema"], shapes)
        if not path.startswith("filter.")
    ]
    assert len(lines) > 10
    assert [line for line in lines if refusals.reason(*line) is None] == []


def _lines(schema: Any, shapes: dict[str, Any], path: str = "", seen: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths of the fields that are lines of text, as answers write them."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            yield from _lines(shapes[name], shapes, path, (*seen, name))
        return
    if schema.get("pattern") in (LINE, Line(1, blank=True).pattern):
        yield path
    for each in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(each, ()):
            yield from _lines(part, shapes, path, seen)
    for name, part in schema.get("properties", {}).items():
        yield from _lines(part, shapes, f"{path}.{name}".lstrip("."), seen)
    if "items" in schema:
        yield from _lines(schema["items"], shapes, f"{path}[0]", seen)
