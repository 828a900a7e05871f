"""Regular expressions from outside, by RE2: what one match may cost is known before it begins.

RE2 has no back-references and no look-around, and so no backtracking: a match takes time in proportion to the text
times the size of the compiled pattern, some 14 ns for each. Both are bounded here. A pattern is searched for, as JSON
Schema has it, unless it is anchored.
"""

from functools import lru_cache
from typing import Any

import re2

LONGEST = 200
#: Text in bytes times size of the program: a quarter of a second.
MOST_STEPS = 20_000_000
_MEMORY_BYTES = 1 << 19


class TooCostly(Exception):
    """The text is too long for this pattern."""


def fault(pattern: object) -> str | None:
    """What is wrong with a pattern; None when it is taken."""
    if not isinstance(pattern, str):
        return "Must be a text: a regular expression."
    if len(pattern) > LONGEST:
        return f"Has {len(pattern)} characters; at most {LONGEST} are taken."
    try:
        _compiled(pattern)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        return (
            f"Is no regular expression as RE2 has them, without back-references and look-around: {why[:100]}."
        )
    return None


def matches(pattern: str, text: str) -> bool:
    """Whether ``text`` holds what a pattern without ``fault`` describes. Raises ``TooCostly`` rather than take long."""
    compiled, raw = _compiled(pattern), text.encode()
    if compiled.programsize * len(raw) > MOST_STEPS:
        raise TooCostly
    return compiled.search(raw) is not None


@lru_cache(maxsize=32)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    return re2.compile(pattern, options)
