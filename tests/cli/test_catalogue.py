"""The catalogue of bad input, row by row, through the command: a code, the field by its name, no traceback, no row."""

import json
from pathlib import Path
from typing import Any

import pytest

from carillon.errors import REFUSED, USAGE
from tests.cli.conftest import ApiAdapter, Command, Ended
from tests.interfaces.api.caller import noop_job
from tests.interfaces.api.test_catalogue import stored
from tests.interfaces.catalogue import DEFINITIONS, LATE, OFFSET, ROWS, YEARS

NEW = ("jobs", "create", "a", "-t", "noop", "--every", "60")
PREVIEW = ("preview", "--cron", "0 2 * * *")
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))

#: (row, command line, standard input, exit code, words in standard error: the field, and the right value)
CALLS: list[tuple[int, tuple[str, ...], str, int, tuple[str, ...]]] = [
    (1, (*NEW, "--payload", r'{"a": "\u0000"}'), "", REFUSED, ("payload.a", "remove it")),
    (1, (*NEW, "--payload", r'{"a\u0000": 1}'), "", REFUSED, ("payload", "remove it")),
    (1, ("jobs", "create", "a\0b", *NEW[3:]), "", REFUSED, ("name", "remove it")),
    (1, ("jobs", "list", "--name-prefix", "a\0"), "", REFUSED, ("name_prefix", "ull characters")),
    (1, ("secrets", "set", "token"), "12345678\0", REFUSED, ("value", "remove it")),
    (2, (*NEW, "--payload", r'{"a": "\ud800"}'), "", REFUSED, ("payload.a", "remove it")),
    (3, (*NEW, "--payload", '{"a": NaN}'), "", USAGE, ("Infinite numbers",)),
    (3, (*NEW, "--payload", '{"a": -Infinity}'), "", USAGE, ("Infinite numbers",)),
    (3, (*NEW, "--payload", '{"a": 1e999}'), "", USAGE, ("Infinite numbers",)),
    (3, ("jobs", "create", "a", "-t", "noop", "--every", "nan"), "", USAGE, ("Infinite numbers",)),
    (4, (*NEW, "--payload", "[" * 100_000), "", USAGE, ("--payload",)),
    (4, ("jobs", "create", "-f", "-"), "payload: " + "[" * 100_000, USAGE, ("not YAML",)),
    (5, (*NEW, "--payload", '{"a": ' + "9" * 5_000 + "}"), "", USAGE, ("--payload",)),
    (5, (*NEW, "--payload", '{"a": 1' + "0" * 4_000 + "}"), "", REFUSED, ("payload.a", "as a string")),
    (5, ("jobs", "list", "--limit", "0"), "", USAGE, ("--limit",)),
    (5, (*PREVIEW, "--count", "9" * 30), "", REFUSED, ("count", "between -2^53 and 2^53")),
    (6, ("jobs", "create", "-t", "noop", "--at", LATE), "", REFUSED, ("schedule.run_at", YEARS)),
    (6, (*PREVIEW, "--after", LATE), "", REFUSED, ("after", YEARS)),
    (6, ("triggers", "list", "--before", LATE), "", REFUSED, ("scheduled_for_before", YEARS)),
    (7, ("jobs", "create", "-t", "noop", "--at", "infinity"), "", REFUSED, ("schedule.run_at", OFFSET)),
    (7, ("dead-letters", "replay", "--after", "-infinity"), "", REFUSED, ("scheduled_for_after", OFFSET)),
    (8, ("preview", "--every", "1e15"), "", REFUSED, ("schedule.every_seconds", "from 1 to")),
    (9, ("jobs", "create", "x" * 10_000, *NEW[3:]), "", REFUSED, ("name", "at most 200")),
    (9, (*NEW, "--label", "a=" + "x" * 10_000), "", REFUSED, ("labels.a", "1 to 63")),
    (9, ("secrets", "set", "x" * 1_000), "12345678", REFUSED, ("name", "1 to 100")),
    (10, (*PREVIEW, "--timezone", "localtime"), "", REFUSED, ("schedule.timezone", "Europe/Berlin")),
    (10, (*PREVIEW, "--timezone", "../etc/passwd"), "", REFUSED, ("schedule.timezone", "Europe/Berlin")),
    (11, ("jobs", "list", "--limit", "\u00b2"), "", USAGE, ("--limit",)),
    (11, ("preview", "--every", "sixty"), "", USAGE, ("--every",)),
    (12, ("preview", "--cron", "0 0 2 * * *"), "", REFUSED, ("schedule.cron", "five fields")),
    (13, ("preview", "--cron", "R R * * *"), "", REFUSED, ("schedule.cron", "write the number")),
    (14, ("preview", "--cron", "0 0 29 2 1#5"), "", REFUSED, ("schedule.cron", "joined with OR")),
    (15, ("preview", "--cron", "0 0 30 2 *"), "", REFUSED, ("schedule.cron", "never")),
    (16, (*NEW, "-t", "webhook", "--payload", '{"url": "https://a.example", "headers": {"Host": "b"}}'), "",
     REFUSED, ("payload.headers", "Host")),
    (17, (*NEW, "--payload", '{"a": 1, "a": 2}'), "", USAGE, ("--payload", "comes twice")),
    (17, ("jobs", "create", "-f", "-"), "name: a\nname: b\n", USAGE, ("-:2",)),
    (17, ("jobs", "create", "-f", "-"), BOMB, USAGE, ("aliases make the document too large",)),
    (17, ("apply", "-f", "-"), BOMB, USAGE, ("aliases make the document too large",)),
    (17, ("jobs", "create", "-t", "noop", "--at", "2020-01-01T00:00:00Z"), "", REFUSED,
     ("schedule.run_at", "a future time")),
    (17, ("jobs", "create", "a\u202eb", *NEW[3:]), "", REFUSED, ("name", "remove it")),
]  # fmt: skip


def kept() -> dict[str, int]:
    """Row counts without stored answers, which repeat a request: the command sends an ``Idempotency-Key``."""
    return {name: count for name, count in stored().items() if name not in ("Answer", "AnswerTally")}


def explains(ended: Ended, code: int, *words: str) -> bool:
    return ended.code == code and all(word in ended.err for word in words) and "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("row", "changes", "field", "right"),
    DEFINITIONS,
    ids=[f"row {row}: {field} {n}" for n, (row, _, field, _) in enumerate(DEFINITIONS)],
)
class TestAFile:
    def test_is_refused_and_nothing_is_stored(
        self, carillon: Command, tmp_path: Path, row: int, changes: dict[str, Any], field: str, right: str
    ) -> None:
        file, before = tmp_path / "job.json", kept()
        file.write_text(json.dumps(noop_job(**changes)))
        refused = carillon("jobs", "create", "-f", str(file))
        assert explains(refused, REFUSED, f"{field} → ", right), (refused.code, refused.err)
        assert kept() == before


@pytest.mark.parametrize(
    ("row", "line", "stdin", "code", "words"),
    CALLS,
    ids=[f"row {row}: {' '.join(line)[:40]} {n}" for n, (row, line, *_) in enumerate(CALLS)],
)
class TestACommand:
    def test_is_refused_and_nothing_is_stored(
        self,
        carillon: Command,
        api: ApiAdapter,
        row: int,
        line: tuple[str, ...],
        stdin: str,
        code: int,
        words: tuple[str, ...],
    ) -> None:
        before = kept()
        refused = carillon(*line, stdin=stdin)
        assert explains(refused, code, *words), (refused.code, refused.err[:500])
        assert kept() == before
        assert code == REFUSED or api.sent == []


def test_every_row_has_its_cases() -> None:
    assert {row for row, *_ in DEFINITIONS} | {row for row, *_ in CALLS} == set(ROWS)
