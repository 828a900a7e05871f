"""Whether the database's schema is that of this release."""

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from jobs.store.insight import schema
from jobs.store.insight.schema import Age, Schema

pytestmark = pytest.mark.django_db


def compared(*changes: str) -> Schema:
    with connection.cursor() as cursor:
        for change in changes:
            cursor.execute(change)
        return schema.compare(cursor.connection)


class TestOnDisk:
    def test_names_the_migrations_that_django_finds(self) -> None:
        assert schema.on_disk() == set(MigrationLoader(None).disk_migrations)


class TestCompare:
    def test_finds_nothing_where_all_migrations_have_run(self) -> None:
        assert compared() == Schema((), ())
        assert compared().age is Age.OK

    @pytest.mark.parametrize("app", ["jobs", "tenants", "django_celery_results"])
    def test_finds_the_schema_older_by_a_migration_of_any_app(self, app: str) -> None:
        last = max(name for label, name in schema.on_disk() if label == app)
        found = compared(f"DELETE FROM django_migrations WHERE app = '{app}' AND name = '{last}'")
        assert (found.lacks, found.age) == ((f"{app}.{last}",), Age.OLDER)

    def test_finds_all_lacking_in_an_empty_database(self) -> None:
        found = compared("ALTER TABLE django_migrations RENAME TO somewhere_else")
        assert (len(found.lacks), found.age) == (len(schema.on_disk()), Age.OLDER)

    def test_finds_the_schema_newer_by_a_migration_that_this_release_does_not_know(self) -> None:
        found = compared(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '9999_later', now())"
        )
        assert (found.unknown, found.age) == (("jobs.9999_later",), Age.NEWER)

    def test_calls_a_schema_older_that_is_both(self) -> None:
        found = compared(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '9999_later', now())",
            "DELETE FROM django_migrations WHERE app = 'tenants'",
        )
        assert found.age is Age.OLDER

    def test_knows_the_migrations_that_one_of_ours_stands_for(self) -> None:
        """As in a database that was made before these migrations were put together."""
        found = compared(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('jobs', '0063_second_factor', now())"
        )
        assert found == Schema((), ())

    def test_does_not_mind_what_other_apps_once_called_theirs(self) -> None:
        found = compared(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('auth', '9999_renamed', now())"
        )
        assert found == Schema((), ())
