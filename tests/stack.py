"""Pytest plugin: a Postgres and a Redis of its own for each test run, unless the environment names some.

Their URLs depend on the directory alone, so they are exported on import, before pytest-django reads the
settings, and the servers start with the session. An xdist worker inherits the URLs and starts nothing; it has a
database of its own in either server. The servers are ephemeral: fast, and gone with the run however it ends.
"""

import os
import re
import secrets
import tempfile
from pathlib import Path

import pytest

from scheduler_project.embedded.stack import EmbeddedStack


def redis_database(number: int) -> str:
    """The URL of another database of the tests' Redis."""
    url = os.environ["REDIS_URL"]
    return (
        re.sub(r"db=\d+", f"db={number}", url)
        if "db=" in url
        else re.sub(r"/\d*$|$", f"/{number}", url, count=1)
    )


_directory = tempfile.TemporaryDirectory(prefix="carillon-tests-")
_stack = EmbeddedStack(data_dir=Path(_directory.name), ephemeral=True)

os.environ["CARILLON_DATA_DIR"] = _directory.name
os.environ.setdefault("DATABASE_URL", _stack.database_url)
os.environ.setdefault("REDIS_URL", _stack.redis_url)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["REDIS_URL"] = redis_database(8 + int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")))
os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(48))
os.environ.setdefault("ALLOWED_HOSTS", "testserver,localhost,127.0.0.1")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.add_cleanup(_directory.cleanup)
    if not config.option.collectonly:
        config.add_cleanup(lambda: _stack.__exit__(None, None, None))  # runs before the directory's
        _stack.__enter__()
