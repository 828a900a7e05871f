"""Every statement that locks rows says how in its header, and no statement of a beat waits for another's lock."""

import re

import pytest

from jobs.store import db
from jobs.store.db import Query

LOCKS = re.compile(
    r"\bUPDATE (?!SET\b)\w|\bDELETE FROM\b|\bFOR (NO KEY )?UPDATE\b|\bFOR (KEY )?SHARE\b|\bDO UPDATE\b|\bLOCK TABLE\b"
)
#: Locked rows are passed over; the transaction has locked them already; a request or a worker may wait; a beat hardly.
WAYS = re.compile(r"SKIP LOCKED|\bheld by \w+|\bwaits \((request|worker)\)|\block_timeout\b")
EVERY = db.all_queries()


def plain(query: Query) -> str:
    return re.sub(r"--[^\n]*", "", query.sql)


def ways(query: Query) -> str:
    return " ".join(query.headers.get("locks", []))


@pytest.mark.parametrize("name", [name for name, query in EVERY.items() if LOCKS.search(plain(query))])
class TestStatementThatLocks:
    def test_says_how(self, name: str) -> None:
        assert WAYS.search(ways(EVERY[name])), f"{name}: its header's locks: must say one of {WAYS.pattern}"

    def test_passes_locked_rows_over_if_it_says_so(self, name: str) -> None:
        query = EVERY[name]
        locking = len(re.findall(r"\bFOR (?:NO KEY )?UPDATE\b", plain(query)))
        skipping = len(re.findall(r"\bFOR (?:NO KEY )?UPDATE(?: OF \w+)? SKIP LOCKED\b", plain(query)))
        if "SKIP LOCKED" in ways(query):
            assert (skipping > 0, locking) == (True, skipping)
        else:
            assert skipping == 0


class TestHeldBy:
    def test_names_a_statement_that_locks(self) -> None:
        for name, query in EVERY.items():
            for holder in re.findall(r"\bheld by (\w+)", ways(query)):
                holders = [other for other in EVERY if other.endswith(f".{holder}")]
                assert holder == "the" or any(LOCKS.search(plain(EVERY[other])) for other in holders), name
