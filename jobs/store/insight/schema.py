"""Whether the database's schema is that of this release, by the names of migrations: those on disk, those on record.

While an installation is upgraded, its schema is newer than the code of the processes that are not replaced yet; these
go on (CONTRIBUTING, "Migrations"). A schema that is older than the code lacks columns that statements name.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from django.apps import apps

#: Apps whose migrations are ours. An unknown migration of another app says nothing: these apps squash, and rename.
OURS = ("jobs", "tenants")
_RECORDED = "SELECT app, name FROM django_migrations"
_IS_RECORDING = "SELECT to_regclass('django_migrations') IS NOT NULL"
Names = frozenset[tuple[str, str]]


class Age(StrEnum):
    """The age of the schema, compared with the code."""

    OK = "ok"
    OLDER = "older"
    NEWER = "newer"


@dataclass(frozen=True, slots=True)
class Schema:
    """Migrations of this release that the database ``lacks``, and those it has that this release does not know."""

    lacks: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def age(self) -> Age:
        return Age.OLDER if self.lacks else Age.NEWER if self.unknown else Age.OK


def compare(connection: psycopg.Connection[Any]) -> Schema:
    """The schema behind ``connection``, in which no table need be there. Two statements; opens no transaction.

    Raises ``psycopg.Error``.
    """
    [(recording,)] = connection.execute(_IS_RECORDING).fetchall()
    recorded: Names = frozenset(connection.execute(_RECORDED).fetchall()) if recording else frozenset()
    unknown = {one for one in recorded - on_disk() if one[0] in OURS}
    # Most processes never come here, and are spared the import of every migration.
    unknown -= _replaced() if unknown else frozenset()
    return Schema(lacks=_named(on_disk() - recorded), unknown=_named(unknown))


@cache
def on_disk() -> Names:
    """(app, name) of every migration of the installed apps, without importing any."""
    return frozenset(
        (app.label, path.stem)
        for app in apps.get_app_configs()
        for path in Path(app.path, "migrations").glob("[!_~]*.py")
    )


@cache
def _replaced() -> Names:
    """Migrations that another one on disk replaces."""
    from django.db.migrations.loader import MigrationLoader

    loader = MigrationLoader(None, ignore_no_migrations=True)
    return frozenset(one for migration in loader.disk_migrations.values() for one in migration.replaces)


def _named(names: Names | set[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{app}.{name}" for app, name in sorted(names))
