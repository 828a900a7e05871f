"""JSON Schemas (2020-12) from outside: read when they are declared, and asked of payloads with a bound on the cost.

A schema comes from a tenant, so it is hostile until shown otherwise. ``reading`` turns it into questions once. It knows
each keyword that it takes, and unknown keywords are no part of the questions. A reference is a name of ``$defs``,
looked up among the schemas that were read: there is no resolver, and so nothing to retrieve. Regular expressions are
RE2's (``patterns``). Asking counts steps (``asking``), so neither schema nor payload can make it long. No clock is
needed, and the same payload is refused today and tomorrow. Why no library does this: docs/adr/0022.
"""

from dataclasses import dataclass
from typing import Any

from jobs.actions.pull.json_schema.asking import Asking, Enough, TooMuch
from jobs.actions.pull.json_schema.reading import DIALECT, read
from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_json

MAX_SCHEMA_BYTES = 32_768
MAX_SCHEMA_DEPTH = 24
#: The most steps of one payload: about a third of a second. One of 64 KiB against a plain schema takes a fifth of it.
MAX_STEPS = 500_000
#: The most steps of all payloads of one call together; each further payload is refused.
MAX_STEPS_OF_A_CALL = 2_000_000
_TOO_LONG = "Checking it against the type's schema takes too long; simplify the schema or the payload."
_TOO_LONG_TOGETHER = "Checking all of them against their types' schemas takes too long; send fewer at once."


def check_schema(schema: object, *, field: str) -> None:
    """Refuse anything but a JSON Schema (2020-12) that is taken here. Raises ``InvalidInput`` below ``field``."""
    if not isinstance(schema, dict):
        raise InvalidInput({field: 'Must be a JSON Schema object, such as {"type": "object"}.'})
    check_json(schema, field=field, max_bytes=MAX_SCHEMA_BYTES, max_depth=MAX_SCHEMA_DEPTH)
    read(schema, field=field)


@dataclass(slots=True)
class Allowance:
    """How many ``steps`` are left for all checks of one call: a bulk may ask a thousand times."""

    steps: float = MAX_STEPS_OF_A_CALL


class Check:
    """A stored schema, to be asked of many values.

    Raises ``InvalidInput`` for a schema that an earlier version took and this one does not.
    """

    def __init__(self, schema: dict[str, Any], allowance: Allowance) -> None:
        self._node, self._allowance = read(schema, field="payload_schema"), allowance

    def __call__(self, value: object, *, field: str) -> None:
        """Raises ``InvalidInput`` with paths below ``field``."""
        given = min(MAX_STEPS, self._allowance.steps)
        asking = Asking(under=field, steps=given)
        try:
            asking.of(self._node, value)
        except Enough:
            pass  # and the faults that were found are told
        except (TooMuch, RecursionError):
            message = _TOO_LONG if given == MAX_STEPS else _TOO_LONG_TOGETHER
            raise InvalidInput({field: message}) from None
        finally:
            self._allowance.steps -= given - asking.steps
        if asking.errors:
            raise InvalidInput(asking.errors)


__all__ = ("DIALECT", "MAX_STEPS", "Allowance", "Check", "check_schema")
