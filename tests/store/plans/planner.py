"""How the planner would run a statement, and how much of a table it would read."""

import json
import re
from collections.abc import Iterator
from typing import Any

from django.db import connection

from jobs.store import db


def analyze(*tables: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(tables)}")


def plan_of(query: db.Query, parameters: dict[str, Any]) -> dict[str, Any]:
    with query.settled(), connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {query.sql}", parameters)
        [found] = cursor.fetchone()
    [explained] = json.loads(found) if isinstance(found, str) else found
    plan: dict[str, Any] = explained["Plan"]
    return plan


def generic_plan_of(query: db.Query, parameters: dict[str, Any]) -> dict[str, Any]:
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", query.sql)))
    text = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", query.sql).replace("%%", "%")
    values = ", ".join(f"%({name})s" for name in names)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        cursor.execute(f"PREPARE kept AS {text}")
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE kept{f'({values})' if names else ''}", parameters)
        [found] = cursor.fetchone()
        cursor.execute("DEALLOCATE kept")
    [explained] = json.loads(found) if isinstance(found, str) else found
    plan: dict[str, Any] = explained["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def filled_tables() -> set[str]:
    """The big tables and those of their partitions that hold more than a few rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relname LIKE 'jobs%%' "
            "AND pg_relation_size(oid) > 100000"
        )
        return {name for (name,) in cursor.fetchall()}


def leading_columns() -> dict[str, str]:
    """The first column of every index over a whole table. Without a condition on it, the whole index is read."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid, 1, true) FROM pg_index "
            "WHERE indpred IS NULL AND indrelid::regclass::text = ANY(%s)",
            [list(filled_tables())],
        )
        return dict(cursor.fetchall())


def whole_reads(plan: dict[str, Any], tables: set[str], leading: dict[str, str]) -> list[str]:
    """Big tables, and indexes over all of their rows, that the plan reads from end to end."""
    scanned = [n["Relation Name"] for n in nodes(plan) if n["Node Type"] == "Seq Scan"]
    walked = [
        n["Index Name"]
        for n in nodes(plan)
        if leading.get(n.get("Index Name"), "") not in n.get("Index Cond", "")
    ]
    return [name for name in scanned if name in tables] + walked


def most_rows(plan: dict[str, Any]) -> int:
    """The number of triggers that the plan expects to read in one place, if no limit ends it sooner."""
    if plan["Node Type"] == "Limit":
        return 0
    own = plan["Plan Rows"] if plan.get("Relation Name") == "jobs_trigger" else 0
    return max([own, *map(most_rows, plan.get("Plans", []))])
