"""The entries of a crontab, line by line, after cronie's and Vixie cron's crontab(5).

An environment line holds for the lines below it. The shell runs a command up to its first unescaped ``%``. The text
after that is its standard input, where each further ``%`` is a line break. ``\\%`` is a percent sign.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_MACRO = re.compile(r"@[A-Za-z_0-9]+")
_VARIABLE = re.compile(r"""(?P<name>"[^"]*"|'[^']*'|[^\s=#"'@*]+)\s*=\s*(?P<value>.*?)\s*""", re.DOTALL)
FIELDS = 5


@dataclass(frozen=True)
class Entry:
    """One line that fires. Only system crontabs have a ``user``; ``stdin`` is None where the line has no ``%``."""

    line: int
    expression: str
    user: str | None
    command: str
    stdin: str | None
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unreadable:
    line: int
    reason: str


def read(text: str, *, system: bool) -> Iterator[Entry | Unreadable]:
    """The entries of a crontab. ``system`` is the form of ``/etc/crontab`` and ``/etc/cron.d``, with a user's name."""
    environment: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip("\r").lstrip(" \t")
        if not line.strip() or line.startswith("#"):
            continue
        if variable := _variable(line):
            name, value = variable
            environment = {**environment, name: value}
        else:
            yield _entry(line, number, system=system, environment=environment)


def _variable(line: str) -> tuple[str, str] | None:
    """``NAME = value``, without the quotes that may stand around either. None for a line that fires."""
    match = _VARIABLE.fullmatch(line)
    if match is None or match["name"][0].isdigit():
        return None
    return _bare(match["name"]), _bare(match["value"])


def _bare(text: str) -> str:
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


def _entry(line: str, number: int, *, system: bool, environment: dict[str, str]) -> Entry | Unreadable:
    # A minus sign tells some crons not to log; Carillon has nothing of the kind.
    line = line.removeprefix("-") if re.match(r"-[0-9*@]", line) else line
    parts = 1 if _MACRO.match(line) else FIELDS
    words = line.split(None, parts + system)
    if len(words) <= parts + system:
        wanted = "five fields (or a macro such as @daily)" + (", a user" if system else "")
        return Unreadable(number, f"Is not an environment line, and does not have {wanted} and a command.")
    expression, user = " ".join(words[:parts]), words[parts] if system else None
    command, stdin = _split(words[-1])
    if not command:
        return Unreadable(number, "Has no command before the first %.")
    return Entry(number, expression, user, command, stdin, environment)


def _split(text: str) -> tuple[str, str | None]:
    r"""The command and its standard input, by the rules of ``%`` and ``\%``."""
    command, *rest = (part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", text))
    return command.strip(), "\n".join(rest) + "\n" if rest else None
