"""Labels: keys and values that a tenant gives its jobs, beside their names. ``{"env": "prod", "team": "billing"}``.

Keys and values are short plain words, so that ``env=prod,team=billing`` in a query says exactly one thing.
"""

import re
from collections.abc import Mapping
from typing import Any

from jobs.core.errors import InvalidInput

MAX_LABELS = 32
WORD = r"[A-Za-z0-9][A-Za-z0-9_./-]{0,62}"
SELECTOR = f"^{WORD}={WORD}(,{WORD}={WORD})*$"
_RULE = "1 to 63 ASCII letters, digits, _ . / and -, beginning with a letter or digit"
_MAX_SHOWN = 40


def read_labels(given: Any) -> dict[str, str]:
    """Check a ``labels`` object. Raises ``InvalidInput`` by key."""
    if not isinstance(given, Mapping):
        raise InvalidInput({"": 'Must be an object such as {"env": "prod", "team": "billing"}.'})
    if len(given) > MAX_LABELS:
        raise InvalidInput({"": f"Has {len(given)} labels; at most {MAX_LABELS} are allowed."})
    errors = {}
    for key, value in given.items():
        if not re.fullmatch(WORD, key):
            errors[ascii(key).strip("'")[:_MAX_SHOWN]] = f"A label's key must be {_RULE}."
        elif not isinstance(value, str) or not re.fullmatch(WORD, value):
            errors[key] = f"A label's value must be a text: {_RULE}."
    if errors:
        raise InvalidInput(errors)
    return dict(given)


def read_selector(text: str) -> dict[str, str]:
    """Labels asked for as ``env=prod,team=billing``. Raises ``InvalidInput`` under the empty field."""
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        return read_labels({key: value for key, _, value in pairs})
    except InvalidInput:
        raise InvalidInput({"": f"Must be labels such as env=prod,team=billing: words of {_RULE}."}) from None
