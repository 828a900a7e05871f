"""Names in definitions of workflows: of tasks, of signals, and of values that come from elsewhere."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from jobs.core.errors import InvalidInput
from jobs.core.workflows.flow import FROM
from jobs.shapes.terms import Says, Text, here

KEY = r"[a-z][a-z0-9_]{0,62}"
_RULE = "is a small letter, then up to 62 small letters, digits and underscores."
TaskKey = Annotated[
    str,
    Field(pattern=f"^{KEY}$"),
    Says(f"A task's key {_RULE}"),
    Text(63, pattern=f"^{KEY}$"),
]
SignalName = Annotated[
    str,
    Field(pattern=f"^{KEY}$"),
    Says(f"A signal's name {_RULE}"),
    Text(63, pattern=f"^{KEY}$"),
]


def taken_value(value: object) -> dict[str, str]:
    """Raises ``InvalidInput`` under the empty field. Only the whole graph tells whether it names something."""
    if not isinstance(value, dict) or list(value) != [FROM] or not isinstance(value[FROM], str):
        raise InvalidInput({"": f'Must be like {{"{FROM}": "extract.result.rows"}}.'})
    return value


TakenValue = Annotated[
    Any,
    AfterValidator(here(taken_value)),
    WithJsonSchema(
        {
            "type": "object",
            "required": [FROM],
            "properties": {FROM: {"type": "string"}},
            "additionalProperties": False,
        }
    ),
]
