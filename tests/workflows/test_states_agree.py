"""The states of runs and task runs, written in three places: the tables in code, SQL and the documentation."""

import re
from pathlib import Path

import pytest

from jobs.core.workflows.states import RUN_TRANSITIONS, TASK_RUN_TRANSITIONS

ROOT = Path(__file__).parent.parent.parent
SQL = (
    "jobs/migrations/0009_workflows.py",
    "jobs/migrations/0012_waits_and_maps.py",
    "jobs/migrations/0022_tasks_by_their_keys.py",
    "jobs/store/sql/workflows.sql",
)
Move = tuple[str, str]
TABLES = {"runs": RUN_TRANSITIONS, "task runs": TASK_RUN_TRANSITIONS}


def in_code(of: str) -> set[Move]:
    return {(str(old), str(new)) for moves in TABLES[of].values() for old, new in moves}


def in_sql(of: str) -> set[Move]:
    text = "".join((ROOT / path).read_text() for path in SQL)
    found = re.findall(rf"-- transition of {of}: (.+) -> (.+)", text)
    return {
        (old.strip(), new.strip())
        for olds, news in found
        for old in olds.split(", ")
        for new in news.split(", ")
    }


class TestSql:
    @pytest.mark.parametrize("of", TABLES)
    def test_makes_the_transitions_of_the_table_and_no_others(self, of: str) -> None:
        assert in_sql(of) == in_code(of)

    def test_says_so_beside_every_statement_that_sets_a_state(self) -> None:
        for path in SQL:
            lines = (ROOT / path).read_text().splitlines()
            for number, line in enumerate(lines):
                if re.search(r"(UPDATE|INSERT INTO) jobs_(taskrun|workflowrun)\b", line):
                    following = " ".join(lines[number : number + 4])
                    if re.search(r"\bstate\b( =|,)", following.partition("WHERE")[0]):
                        above = "\n".join(lines[max(0, number - 20) : number + 1])
                        assert "-- transition of " in above, f"{path}:{number + 1}"


class TestTheDocumentation:
    @pytest.mark.parametrize(("of", "noun"), [("runs", "run"), ("task runs", "task run")])
    def test_shows_the_transitions_of_the_table(self, of: str, noun: str) -> None:
        text = (ROOT / "docs/state-machine.md").read_text()
        [table] = re.findall(rf"^\| {noun} \| from \| to \|.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
        written = {
            (verb, old, new)
            for verb, olds, news in re.findall(r"^\| (\w+) \| (.+?) \| (.+?) \|", table, re.MULTILINE)
            for old in re.findall(r"`([\w-]+)`", olds)
            for new in re.findall(r"`([\w-]+)`", news)
        }
        assert written == {
            (verb, str(old), str(new)) for verb, moves in TABLES[of].items() for old, new in moves
        }
