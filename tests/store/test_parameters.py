"""Lists given to a statement reach the server as they are, and documents of the server come back as they are."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from jobs.models.fields import new_id, new_ids
from jobs.store.db import Query

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 29, 1, 2, 3, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("uuid", [new_id(), new_id()]),
        ("uuid", [UUID(int=1)] * 3),
        ("int", [7, 7, 7]),
        ("bigint", [-(2**40), 0, 2**40]),
        ("int", [1, None]),
        ("int", []),
        ("int", [None, None]),
        ("text", ["plain", 'a "quote"', r"back\\slash", "", "NULL", "{,}", "ünï\n"]),
        ("text", ["same, and 'so'"] * 4),
        ("text", ['"', '"']),
        ("boolean", [True, True, False]),
        ("timestamptz", [NOW, NOW]),
        (
            "timestamptz",
            [NOW, NOW.astimezone(timezone(timedelta(hours=5, minutes=30))), NOW + timedelta(days=1)],
        ),
        ("interval", [timedelta(days=-1, microseconds=1), timedelta(seconds=90)]),
    ],
)
def test_a_list_is_an_array_of_the_same(kind: str, values: list[Any]) -> None:
    found = Query("echo", f"SELECT v FROM unnest(%(values)s::{kind}[]) AS v")(values=values)
    assert [row.v for row in found] == values


@pytest.mark.parametrize("document", [{}, {"ä": ["\U0001f600", "\\", 1.5, None]}, "text", 7, None, []])
def test_a_document_is_read_as_it_was_written(document: Any) -> None:
    [row] = Query("echo", "SELECT %(text)s::jsonb AS document, NULL::jsonb AS nothing")(
        text=json.dumps(document)
    )
    assert (row.document, row.nothing) == (document, None)
    assert row._fields == ("document", "nothing")


def test_ids_as_text_are_ids_and_in_order() -> None:
    before, ids, after = new_id(), [UUID(text) for text in new_ids(100)], new_id()
    assert [before, *ids, after] == sorted([before, *ids, after])
    assert {(found.version, found.variant) for found in ids} == {(7, before.variant)}
