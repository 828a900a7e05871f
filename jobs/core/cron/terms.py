"""One field of a cron expression: its list of numbers, names, ranges, steps, ``L``, ``W`` and ``#``, read or refused.

Every refusal names the field, its number and the character it begins at, and gives the spelling that would be right.
It is raised as ``InvalidInput`` under the field ``cron``.
"""

import re
from dataclasses import dataclass
from typing import NoReturn

from jobs.core.cron.columns import Column
from jobs.core.errors import InvalidInput
from jobs.core.policies import CronDialect

_PLAIN = re.compile(r"(?:(?P<star>\*)|(?P<low>[0-9A-Z]+)(?:-(?P<high>[0-9A-Z]+))?)(?:/(?P<step>[0-9]{1,3}))?")
_NTH = re.compile(r"(?P<day>[0-9A-Z]+)#(?P<nth>[0-9]+)")
_FOREIGN = re.compile(r"[RH](\([0-9-]*\))?(/[0-9]+)?")
_MOVING = re.compile(r"(?P<day>[0-9]{1,2})W|L(?:-(?P<before>[0-9]{1,2}))?(?P<nearest>W?)")
_FURTHEST_BEFORE = 30
_MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Field:
    """One field as it was written. ``number`` and ``character``, both from 1, are its place in the expression."""

    column: Column
    dialect: CronDialect
    text: str
    number: int
    character: int

    def expand(self) -> str:
        """The field as croniter gets it: ``*`` for every value, else a list of ``3``, ``l``, ``l5``, ``5#2``.

        Days of the month that move (``15w``, ``lw``, ``l-3``) are for ``moving`` instead.
        """
        if self.text == "?" and self.dialect is CronDialect.QUARTZ and self._names_days():
            return "*"
        values: set[int] = set()
        special: list[str] = []
        character = self.character
        words = self.text.split(",")
        for word in words:
            term = _Term(self.column, self.dialect, word, self.number, character)
            if word.startswith("*") and len(words) > 1:
                whole = word.replace("*", f"{self.column.low}-{self.column.last}")
                term.refuse(f"cannot stand in a list; write it as a range, such as {whole}")
            if (named_day := term.special()) is not None:
                special.append(named_day)
            else:
                values |= term.values()
            character += len(word) + 1
        if special and values and self.column.is_weekday:
            self.refuse("mixes L or # with plain weekdays; make a job for each")
        if values == self.column.everything:
            return "*"
        return ",".join([*map(str, sorted(values)), *special])

    def refuse(self, reason: str) -> NoReturn:
        """Raise ``InvalidInput`` saying where this is, what was written and ``reason``, a sentence without its stop."""
        shown = self.text[:_MAX_SHOWN] or "an empty list entry"
        where = f"{self.column.name} (field {self.number}, character {self.character})"
        raise InvalidInput({"cron": f"{where}: {shown} {reason}."})

    def _names_days(self) -> bool:
        return self.column.is_day or self.column.is_weekday


class _Term(Field):
    """One entry of the list that a field is."""

    __slots__ = ()

    def special(self) -> str | None:
        """croniter's spelling of a day named by ``L`` or ``#``, or None; refuses their disputed forms."""
        if self.text == "?" or _FOREIGN.fullmatch(self.text):
            self.refuse(f"is not a fixed time; write the number, or * for every {self.column.name}")
        if self.column.is_day:
            return self._last_day()
        if not self.column.is_weekday:
            return None
        if match := _NTH.fullmatch(self.text):
            if not 1 <= int(match["nth"][:3]) <= 5:
                self.refuse("asks for an occurrence that no month has; write a number from 1 to 5 after #")
            return f"{self.column.value(self._number(match['day']))}#{int(match['nth'])}"
        return self._last_weekday()

    def _last_day(self) -> str | None:
        """``L``, and in quartz the days that move with their month: ``15W``, ``LW``, ``L-3``, ``L-3W``."""
        if self.text == "L":
            return "l"
        if not re.search("[LW]", self.text):
            return None
        if self.dialect is not CronDialect.QUARTZ:
            self.refuse("belongs to the quartz dialect; write the days as numbers, or L for the last one")
        match = _MOVING.fullmatch(self.text)
        if match is None:
            self.refuse("is not a day that quartz knows, such as 15W, LW, L-3 or L-3W")
        if match["day"]:
            return f"{self._number(match['day'])}w"
        if match["before"] and not 1 <= int(match["before"]) <= _FURTHEST_BEFORE:
            self.refuse(f"must count from 1 to {_FURTHEST_BEFORE} days before the last; L is the last one")
        before = f"-{int(match['before'])}" if match["before"] else ""
        return f"l{before}{match['nearest'].lower()}"

    def _last_weekday(self) -> str | None:
        """``L5`` in unix, ``6L`` in quartz, both the last Friday. Other parsers refuse each or read it differently."""
        names = "|".join(self.column.names)
        unix, quartz = (re.fullmatch(form, self.text) for form in (f"L([0-9]|{names})", f"([0-9]|{names})L"))
        match = quartz if self.dialect is CronDialect.QUARTZ else unix
        if match:
            return f"l{self.column.value(self._number(match[1]))}"
        if self.text == "L" or unix or quartz:
            right = "6L" if self.dialect is CronDialect.QUARTZ else "L5"
            self.refuse(f"is read differently by parsers; write {right} for the last Friday of the month")
        return None

    def values(self) -> set[int]:
        """The values a plain term stands for: ``*``, ``7``, ``1-5``, ``*/15`` or ``8-18/2``; in quartz ``0/15``."""
        match = _PLAIN.fullmatch(self.text)
        if match is None:
            self.refuse("is not a number, name, range or step")
        column = self.column
        low = column.low if match["star"] else self._number(match["low"])
        high = column.last if match["star"] else low
        if match["high"]:
            high = self._number(match["high"])
            self._check_range(low, high)
        step = int(match["step"] or 1)
        if match["step"]:
            if not match["star"] and not match["high"]:
                high = self._end_of_open_step(match["low"], low, step)
            self._check_step(low, high, step)
        return {column.value(number) for number in range(low, high + 1, step)}

    def _number(self, word: str) -> int:
        column = self.column
        if word in column.names:
            return column.low + column.names.index(word)
        if not re.fullmatch("[0-9]{1,2}", word) or not column.low <= int(word) <= column.high:
            names = f", or {column.names[0]}-{column.names[-1]}" if column.names else ""
            self.refuse(f"is out of range; values are {column.low}-{column.high}{names}")
        return int(word)

    def _end_of_open_step(self, word: str, low: int, step: int) -> int:
        """``5/15`` means 5-59/15 to Quartz; to crons it is an error, or just 5. ``MON/2`` differs even there."""
        if self.dialect is CronDialect.UNIX or word in self.column.names:
            self.refuse(f"is read differently by parsers; write {low}-{self.column.last}/{step}")
        return self.column.last

    def _check_range(self, low: int, high: int) -> None:
        column = self.column
        if low == high:
            self.refuse(f"is one value to some parsers and every value to others; write {low}")
        if low > high:
            head = f"{low}-{column.last}" if low < column.last else f"{low}"
            tail = f"{column.low}-{high}" if high > column.low else f"{high}"
            self.refuse(f"runs backwards; write {head},{tail} if it is to wrap around")

    def _check_step(self, low: int, high: int, step: int) -> None:
        if not 1 <= step <= high - low:
            self.refuse(
                f"has a step that must be from 1 to {high - low}, the length of its range; "
                f"to fire at {low} alone write {low}"
            )
