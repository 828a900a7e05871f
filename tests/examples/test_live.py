"""Every command and example of README and docs, against a live stack: all of them must work as written."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from jobs.handlers import registry
from stage.processes import free_port
from tests.cluster.stage import Stage
from tests.examples.pages import PAGES, ROOT, blocks_of
from tests.examples.terminal import Terminal

pytestmark = pytest.mark.cluster
RUN = {page: [block for block in blocks_of(page) if block.is_run] for page in PAGES}
RUN = {page: blocks for page, blocks in RUN.items() if blocks}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(beats=1, workers=1) as stage:
        yield stage


class ChargePayload(BaseModel):
    account: int
    amount: int


def signed() -> dict[str, Any]:
    """A request as it arrives at a target."""
    from standardwebhooks import Webhook

    at, body = datetime.now(UTC), b'{"kind": "settlement"}'
    signature = Webhook(SECRET).sign("trg_1", at, body.decode())
    headers = {
        "webhook-id": "trg_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }
    return {"body_bytes": body, "headers": headers}


def names_of(page: str) -> dict[str, Any]:
    """Names that the Python of a page takes for granted: the reader's own."""
    from jobs.handlers import Context

    match page:
        case "docs/handlers.md":
            return {
                "find_account": lambda _: None,
                "ChargePayload": ChargePayload,
                "Context": Context,
                "__name__": page,
            }
        case "docs/webhooks.md":
            return signed()
    return {}


@pytest.fixture
def terminal(
    stage: Stage, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    page: Path = request.param
    slug = f"of-{page.stem.lower()}"
    made = stage.manage(
        "create_tenant", slug, "--api-key", "reader", "--scopes", "read,write,worker,admin", "--json"
    )
    key = json.loads(made)["api_key"]
    job = {"name": "reader", "job_type": "noop", "schedule": {"type": "interval", "every_seconds": 3600}}
    job_id = stage.call("POST", "/jobs", key=key, body=job)["id"]
    for priority in ("high", "low"):  # version 3
        stage.call("PATCH", f"/jobs/{job_id}", key=key, body={"priority": priority})
    known = {"CARILLON_URL": stage.url, "CARILLON_API_KEY": key, "KEY": key, "ID": job_id}
    replaced = {
        r"http://127\.0\.0\.1:8000|https://carillon\.example\b": stage.url,
        r"\b9000\b": str(free_port()),
        r"whsec_…": SECRET,
    }
    if page.name != "README.md":
        replaced[r"\bacme\b"] = slug
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(registry, "_types", dict(registry._types))
    monkeypatch.chdir(ROOT)
    opened = Terminal(tmp_path, environment={**os.environ, **stage.environment, **known}, replaced=replaced)
    opened.names = names_of(str(page.relative_to(ROOT)))
    yield opened
    opened.close()


def ask(stage: Stage, statements: str) -> None:
    """Run the statements in a schema of its own, and keep nothing."""
    with psycopg.connect(stage.environment["DATABASE_URL"]) as connection:
        connection.execute("CREATE SCHEMA reader")
        if "CREATE TABLE" in statements:
            connection.execute("SET LOCAL search_path = reader")
        connection.execute(statements)
        connection.rollback()


@pytest.mark.parametrize(
    ("terminal", "page"),
    [(page, page) for page in RUN],
    indirect=["terminal"],
    ids=[page.stem for page in RUN],
)
def test_a_page_works_as_written(stage: Stage, terminal: Terminal, page: Path) -> None:
    for block in RUN[page]:
        try:
            if block.language == "sql":
                ask(stage, block.text)
            else:
                terminal.run(block)
        except Exception as error:
            raise AssertionError(f"{block}: {error}") from error
