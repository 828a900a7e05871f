"""The rules of CONTRIBUTING, "Migrations": squawk's rules, and those that squawk does not have."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Squawk's rules about taste, or about settings that ``manage.py migrate`` makes.
NOT_OURS = (
    "prefer-bigint-over-int",
    "prefer-bigint-over-smallint",
    "prefer-identity",
    "prefer-robust-stmts",
    "prefer-text-field",
    "require-lock-timeout",
    "require-statement-timeout",
)
#: Rules that a migration may break if it drops columns or tables that a release no longer uses (``contracts``).
OF_CONTRACTS = frozenset({"ban-drop-column", "ban-drop-table"})
#: The oldest Postgres that an installation may have.
POSTGRES = "15.0"
_WHOLE_TABLE = re.compile(
    r"^\s*(LOCK\b|CLUSTER\b|VACUUM\s+(\(\s*)?FULL|ALTER\s+TABLE\b.*\bSET\s+(UN)?LOGGED|ALTER\s+TABLE\b.*"
    r"\bSET\s+(TABLESPACE|ACCESS\s+METHOD))",
    re.IGNORECASE | re.DOTALL,
)
#: A table that was made a moment ago is empty, and no other session knows it.
_MADE = re.compile(r'^\s*CREATE\s+TABLE\s+"?(\w+)', re.IGNORECASE)
_ALTERED = re.compile(r'^\s*ALTER\s+TABLE\s+"?(\w+)', re.IGNORECASE)
_ROWS = re.compile(r"^\s*(UPDATE|DELETE|TRUNCATE|WITH)\b", re.IGNORECASE)


def broken_rules(statements: Sequence[str], *, atomic: bool, contracts: bool = False) -> list[str]:
    """``rule: the statement's first line`` for each rule that a migration's statements break.

    ``contracts``: the migration may drop columns and tables.
    """
    allowed = OF_CONTRACTS if contracts else frozenset()
    found = [*_by_squawk(statements, atomic=atomic), *_by_us(statements, atomic=atomic)]
    return [f"{rule}: {_first_line(statement)}" for rule, statement in found if rule not in allowed]


def _by_us(statements: Sequence[str], *, atomic: bool) -> Iterator[tuple[str, str]]:
    made: set[str] = set()
    for statement in statements:
        if table := _MADE.match(statement):
            made.add(table[1])
        altered = _ALTERED.match(statement)
        if _WHOLE_TABLE.match(statement) and not (altered and altered[1] in made):
            yield "locks-a-whole-table", statement
        if atomic and _ROWS.match(statement):
            yield "changes-rows-in-one-transaction", statement


def _by_squawk(statements: Sequence[str], *, atomic: bool) -> Iterator[tuple[str, str]]:
    lines = ["BEGIN;"] if atomic else []
    at: dict[int, str] = {}
    for statement in statements:
        for line in f"{statement};".splitlines():
            at[len(lines)] = statement
            lines.append(line)
    lines += ["COMMIT;"] if atomic else []
    command = [Path(sys.executable).with_name("squawk"), "--reporter", "json", "--pg-version", POSTGRES]
    done = subprocess.run(
        [*command, "--exclude", ",".join(NOT_OURS)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    for one in json.loads(done.stdout):
        yield one["rule_name"], at.get(one["line"], "")


def _first_line(statement: str) -> str:
    told = [line.strip() for line in statement.splitlines() if not line.lstrip().startswith("--")]
    return next(iter(told), "")
