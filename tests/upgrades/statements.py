"""The statements that migrations send, as they send them: ``python -m tests.upgrades.statements APP.MIGRATION …``.

Migrates the database of ``DATABASE_URL`` up to the named migrations, then applies the later ones, and prints a JSON
list of ``{"migration", "atomic", "contracts", "statements"}``. The statements are really carried out, because those of
RunPython are known only then.
"""

import json
import sys
from typing import Any

import django
import psycopg

NOT_SENT_FOR_CHANGE = ("SELECT", "SHOW", "SET ")


def main(*baseline: str) -> None:
    """Print the statements of every migration after those of ``baseline``."""
    django.setup()
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    before = [tuple(name.split(".")) for name in baseline]
    others = [node for node in executor.loader.graph.leaf_nodes() if node[0] not in dict(before)]
    state = executor.migrate([*others, *before])
    executor = MigrationExecutor(connection)
    told: list[dict[str, Any]] = []
    for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes()):
        said: list[str] = []
        with (
            connection.execute_wrapper(_recording(said)),
            connection.schema_editor(atomic=migration.atomic) as editor,
        ):
            state = migration.apply(state, editor)
        told.append(
            {
                "migration": f"{migration.app_label}.{migration.name}",
                "atomic": migration.atomic,
                "contracts": getattr(migration, "contracts", ""),
                "statements": said,
            }
        )
    json.dump(told, sys.stdout)


def _recording(said: list[str]) -> Any:
    def record(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if not sql.lstrip().upper().startswith(NOT_SENT_FOR_CHANGE):
            given = psycopg.ClientCursor(context["connection"].connection).mogrify(sql, parameters)
            said.append(given.strip().rstrip(";"))
        return execute(sql, parameters, many, context)

    return record


if __name__ == "__main__":
    main(*sys.argv[1:])
