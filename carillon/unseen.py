"""Characters that a terminal obeys, or that make a line read as another one: never printed, always shown as escapes.

They are Unicode's control characters (the tab and C1's one-byte CSI among them), its format characters (marks and
overrides of direction, joiners, tags), its line separators, and surrogates without their other half.
"""

import re
import unicodedata
from typing import Any

_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
#: Characters that may be one of them: all but ASCII's printable ones and the line break, which a terminal may have.
_SUSPECTS = re.compile(r"[^ -~\n]")


def is_unseen(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN


def holds_unseen(text: str) -> bool:
    return any(is_unseen(found[0]) for found in _SUSPECTS.finditer(text))


def for_people(text: str) -> str:
    """Each as ``\\u202e`` or ``\\U000e0041``: so YAML's double-quoted texts write it too."""
    return _SUSPECTS.sub(lambda found: _escaped(found[0]), text)


def for_json(text: str) -> str:
    """JSON with each escaped; JSON's escapes have 16 bits only. Such characters stand only in its texts."""
    return _SUSPECTS.sub(
        lambda found: (
            "".join(_escaped(half) for half in _halves(found[0])) if is_unseen(found[0]) else found[0]
        ),
        text,
    )


def _escaped(character: str) -> str:
    if not is_unseen(character):
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _halves(character: str) -> Any:
    units = character.encode("utf-16-be", "surrogatepass")
    return (chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))
