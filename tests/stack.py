"""Pytest plugin: a Postgres and a Redis of its own for each test run, unless the environment names some.

Their URLs depend on the directory alone. So they are exported on import, before pytest-django reads the settings, and
the servers start with the session. They are ephemeral: fast, and gone with the run however it ends. Each xdist worker
has servers of its own: an open transaction is noticed in every database of a server (docs/events.md). If the
environment names servers, the workers share them. ``POSTGRES_VERSION=15`` runs Debian's Postgres 15 in place of the
embedded one.
"""

import os
import re
import secrets
import tempfile
from pathlib import Path

import pytest

from scheduler_project.embedded.postgres import EmbeddedPostgres
from scheduler_project.embedded.stack import EmbeddedStack
from scheduler_project.processes import collector
from tests import abreast

#: A run that has servers of its own sets it, so that its xdist workers start others.
OWN = "TESTS_OWN_SERVERS"
if os.environ.pop(OWN, ""):
    for name in ("DATABASE_URL", "REDIS_URL"):
        del os.environ[name]

#: A database with every table and only the rows that migrations make. Stages are copied from it.
EMPTY_COPY = "cluster_template"

#: The version of Debian's Postgres to test with; empty: the embedded one.
VERSION = os.environ.get("POSTGRES_VERSION", "")


class DebianPostgres(EmbeddedPostgres):
    """Postgres from the package ``postgresql-VERSION``, with the embedded one's settings."""

    programs = Path(f"/usr/lib/postgresql/{VERSION}/bin")
    # Before 17 Postgres has no locales of its own. This locale of the C library orders alike.
    locale = ("--locale=C.UTF-8",)

    def prepare(self) -> None:
        if self.account.uid is not None:
            # Before 16 its programs change to other directories, and come back to their first one by its path.
            self.data_dir.chmod(0o711)
        super().prepare()


POSTGRES = DebianPostgres if VERSION else EmbeddedPostgres
_directory = tempfile.TemporaryDirectory(prefix="carillon-tests-")
_stack = EmbeddedStack(data_dir=Path(_directory.name), ephemeral=True, postgres=POSTGRES)

if "DATABASE_URL" not in os.environ and "REDIS_URL" not in os.environ:
    os.environ[OWN] = "1"
os.environ["CARILLON_DATA_DIR"] = _directory.name
os.environ.setdefault("DATABASE_URL", _stack.database_url)
os.environ.setdefault("REDIS_URL", _stack.redis_url)
os.environ["CARILLON_NOOP_ENABLED"] = "true"
os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(48))
os.environ.setdefault("ALLOWED_HOSTS", "testserver,localhost,127.0.0.1")


def redis_database(number: int) -> str:
    """The URL of another database of the tests' Redis."""
    url = os.environ["REDIS_URL"]
    if "db=" in url:
        return re.sub(r"db=\d+", f"db={number}", url)
    return re.sub(r"/\d*$|$", f"/{number}", url, count=1)


_NUMBER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
if abreast.is_computing(_NUMBER, workers=int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))):
    os.nice(abreast.NICENESS)
if "PYTEST_XDIST_WORKER" in os.environ and OWN not in os.environ:
    os.environ["REDIS_URL"] = redis_database(8 + _NUMBER)
#: For a stage, which runs beside the tests.
STAGE_REDIS_URL = redis_database(7 - _NUMBER)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.add_cleanup(_directory.cleanup)
    idle = config.option.collectonly or getattr(config.option, "numprocesses", None)
    if not idle:
        config.add_cleanup(lambda: _stack.__exit__(None, None, None))  # runs before the directory's
        _stack.__enter__()


def pytest_collection_finish() -> None:
    """Everything imported and collected lives as long as the run. Looking through it took a tenth of each test."""
    collector.spare()
