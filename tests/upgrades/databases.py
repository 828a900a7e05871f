"""Databases of their own for tests of migrations, and ``manage.py`` beside the tests."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

from stage.processes import run_python, start_python
from stage.urls import as_url

MIGRATE = ("manage.py", "migrate", "--no-input", "--skip-checks")


@contextmanager
def own_database(*, like: str | None = None) -> Iterator[str]:
    """The URL of a database, without a table, on the tests' server; it is dropped at the end.

    ``like``: the URL of a database that it is a copy of instead. No session may be connected to that one.
    """
    admin_url, name = os.environ["DATABASE_URL"], f"upgrades_{uuid4().hex[:12]}"
    template = psycopg.conninfo.conninfo_to_dict(like)["dbname"] if like else "template1"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(create.format(sql.Identifier(name), sql.Identifier(str(template))))
    try:
        yield as_url(psycopg.conninfo.make_conninfo(admin_url, dbname=name))
    finally:
        with psycopg.connect(admin_url, autocommit=True) as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def migrated(url: str, *arguments: str) -> str:
    """The output of ``manage.py migrate``, which must succeed."""
    done = run_python((*MIGRATE, *arguments), environment=os.environ | {"DATABASE_URL": url})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def migrate_beside(url: str, *arguments: str, log: Path) -> "subprocess.Popen[bytes]":
    """Migrate beside the test. The test must wait for the end."""
    return start_python((*MIGRATE, *arguments), environment=os.environ | {"DATABASE_URL": url}, log=log)
