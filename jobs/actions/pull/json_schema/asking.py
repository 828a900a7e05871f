"""Asking a value against a schema that was read. Each step is counted, and the count is the only bound that is needed.

A step is some microsecond of work, whose size neither schema nor value can change. Longer work pays for more than one
step. Memory follows: every item that is kept was paid for. Nothing here fetches, opens or resolves.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MAX_ERRORS = 20
#: The most schemas within schemas, on the way to one answer. Each takes three frames of Python's thousand.
MAX_DEPTH = 200
_MAX_NAME_SHOWN = 40
#: How many characters of a text one step pays for.
_CHARACTERS_A_STEP = 32

#: Where a value stands: the place of its container, then its key or index there. The outermost has none.
Place = tuple[Any, str | int] | None
#: The names or indexes of a value that its schema knew.
Known = set[str | int]


class TooMuch(Exception):
    """The steps are used up, or the schema leads too deep."""


class Enough(Exception):
    """The faults that were found are as many as are told."""


@dataclass(slots=True)
class Node:
    """A schema that was read: its questions in their order; None where it accepts nothing."""

    asks: "list[Ask] | None" = field(default_factory=list)


@dataclass(slots=True)
class Asking:
    """One value being asked; ``errors`` stand at paths below ``under``."""

    under: str
    steps: float
    errors: dict[str, list[str]] = field(default_factory=dict)
    quiet: bool = False
    _depth: int = 0
    _texts: dict[int, str] = field(default_factory=dict)

    def of(self, node: Node, value: Any, place: Place = None) -> Known | None:
        """The part of ``value`` that the schema knew, or None if it does not fit; then its faults are noted."""
        self.spend(1)
        if node.asks is None:
            self.fault(place, "", None)
            return None
        if self._depth == MAX_DEPTH:
            raise TooMuch
        self._depth += 1
        known: Known = set()
        fits = True
        for ask in node.asks:
            self.spend(1)
            fits = ask(self, value, place, known) and fits
            if self.quiet and not fits:
                break
        self._depth -= 1
        return known if fits else None

    def quietly(self, node: Node, value: Any) -> Known | None:
        """The same without noting faults: for alternatives."""
        before, self.quiet = self.quiet, True
        known = self.of(node, value)
        self.quiet = before
        return known

    def spend(self, steps: int) -> None:
        """Pay for work before it is done. Raises ``TooMuch``."""
        self.steps -= steps
        if self.steps < 0:
            raise TooMuch

    def fault(self, place: Place, keyword: str, demanded: object) -> None:
        """Note what the schema demands, without the offending value: payloads hold secrets. Raises ``Enough``."""
        if self.quiet:
            return
        path = self._path(place)
        if path not in self.errors and len(self.errors) == MAX_ERRORS:
            raise Enough
        self.errors.setdefault(path, []).append(_words(keyword, demanded))
        if sum(map(len, self.errors.values())) >= 2 * MAX_ERRORS:
            raise Enough

    def text(self, value: Any) -> str:
        """The same text for values that JSON Schema calls equal: 1.0 is 1, and the order of members does not count."""
        if isinstance(value, str):
            self.spend(1 + len(value) // _CHARACTERS_A_STEP)
            return json.dumps(value)
        if not isinstance(value, list | dict):
            self.spend(1)
            return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)
        if id(value) in self._texts:  # it lives as long as the value that is asked
            return self._texts[id(value)]
        if isinstance(value, list):
            text = f"[{','.join(map(self.text, value))}]"
        else:
            members = (f"{self.text(name)}:{self.text(value[name])}" for name in sorted(value))
            text = f"{{{','.join(members)}}}"
        self.spend(1 + len(text) // _CHARACTERS_A_STEP)
        self._texts[id(value)] = text
        return text

    def _path(self, place: Place) -> str:
        steps = []
        while place is not None:
            place, step = place
            steps.append(f"[{step}]" if isinstance(step, int) else f".{step[:_MAX_NAME_SHOWN]}")
        return self.under + "".join(reversed(steps))


#: One keyword's question: whether the value fits. Notes the faults, and adds the names or indexes the schema knew.
Ask = Callable[[Asking, Any, Place, Known], bool]


def _words(keyword: str, demanded: Any) -> str:
    match keyword:
        case "":
            return "Nothing is accepted here."
        case "required":
            names = ", ".join(repr(name) for name in demanded[:5])[:150]
            more = f" and {len(demanded) - 5} more" if len(demanded) > 5 else ""
            return (
                f"Is incomplete: {names}{more} "
                f"{'are required properties' if len(demanded) > 1 else 'is a required property'}."
            )
        case "type":
            return f"Must be of type {' or '.join(demanded)}."
        case "additionalProperties" | "unevaluatedProperties":
            return "Has fields that the type's schema does not know."
        case "enum":
            return f"Must be {json.dumps(demanded)[:200]} or one of these."
        case "const":
            return f"Must be {json.dumps(demanded)[:200]}."
    return f"Does not satisfy {keyword}: {json.dumps(demanded)[:200]}."
