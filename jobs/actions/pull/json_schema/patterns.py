"""Regular expressions from outside, by RE2: the most that one match may cost is known before it begins.

RE2 has no back-references and no look-around, and so no backtracking: a match takes time in proportion to the text
times the size of the compiled pattern, some 14 ns for each. Both count as steps (``asking``). A pattern is searched
for, as JSON Schema has it, unless it is anchored.
"""

from typing import Any

import re2

MAX_PATTERN_LENGTH = 200
#: How much one step pays for: text in bytes times size of the program.
_A_STEP = 50
_MEMORY_BYTES = 1 << 19


class Refused(Exception):
    """The pattern is not taken; the message says why."""


class Pattern:
    """A compiled pattern. Raises ``Refused``."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: object) -> None:
        if not isinstance(pattern, str):
            raise Refused("Must be a text: a regular expression.")
        if len(pattern) > MAX_PATTERN_LENGTH:
            raise Refused(f"Has {len(pattern)} characters; at most {MAX_PATTERN_LENGTH} are allowed.")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY_BYTES
        try:
            self._compiled: Any = re2.compile(pattern, options)
        except re2.error as error:
            why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
            raise Refused(
                f"Is not a regular expression of RE2 (no back-references, no look-around): {why[:100]}."
            ) from None

    def steps(self, text: str) -> int:
        """The steps that ``matches`` costs."""
        # A character takes at most four bytes.
        return 1 + int(self._compiled.programsize) * 4 * len(text) // _A_STEP

    def matches(self, text: str) -> bool:
        """Whether the pattern matches somewhere in ``text``."""
        return self._compiled.search(text.encode()) is not None
