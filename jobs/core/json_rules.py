"""What JSON and text Carillon accepts from outside, whichever way it came in (API, admin, commands).

Postgres cannot store NUL or lone surrogates, no two JSON readers agree on integers beyond 2^53 or on repeated
keys, and deep nesting overruns the stack of most of them. All of it is refused here by ``InvalidInput`` with
the exact path, before it can become an error 500 or a row that nobody can read. Every check is iterative: no
input can exhaust our own stack, and none costs more than a pass over its bytes.
"""

import json
import math
import re
from typing import NoReturn

from jobs.core.errors import InvalidInput

MAX_DEPTH = 32
LARGEST_INTEGER = 2**53
_LONGEST_KEY_SHOWN = 40
_MOST_DIGITS = 100

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
#: Bidirectional overrides and isolates: they make one name look like another.
_DECEPTIVE = re.compile("[\u202a-\u202e\u2066-\u2069]")
#: A whole string (possessive: no backtracking over a megabyte of it), or one bracket outside of strings.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)

#: Where a value stands: the place of its container, then its key or index there. The outermost has no place.
_Place = tuple["_Place | None", str | int]


def check_json(
    value: object, *, field: str, max_bytes: int, max_depth: int = MAX_DEPTH, quota: str = ""
) -> None:
    """Refuse a parsed JSON value that Postgres or another reader could not hold.

    ``max_bytes`` bounds its compact UTF-8 encoding, ``max_depth`` its nested arrays and objects; ``quota`` names where
    the former comes from. Raises ``InvalidInput`` under the exact path of the first fault, such as
    ``payload.body.items[3]``.
    """
    pending: list[tuple[object, _Place | None, int]] = [(value, None, 0)]
    least_bytes = 0
    while pending:
        item, place, depth = pending.pop()
        # Counted on the way, because a small object that holds another many times over has no end in sight.
        least_bytes += len(item) + 2 if isinstance(item, str) else 1
        if least_bytes > max_bytes:
            _refuse_size(field, max_bytes, quota)
        if isinstance(item, dict | list):
            if depth == max_depth:
                _refuse(field, place, f"Nested deeper than {max_depth} levels; flatten it.")
            pending.extend(reversed(_children(item, field, place, depth)))
        elif fault := _fault(item):
            _refuse(field, place, fault)
    encoded = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    if len(encoded) > max_bytes:
        _refuse_size(field, max_bytes, quota)


def check_text(value: object, *, field: str, max_length: int) -> None:
    """Refuse what is not a storable text of at most ``max_length`` characters. Raises ``InvalidInput`` under
    ``field``.
    """
    if not isinstance(value, str):
        raise InvalidInput({field: "Must be a text."})
    if len(value) > max_length:
        raise InvalidInput({field: f"Has {len(value)} characters; at most {max_length} are allowed."})
    if fault := _text_fault(value):
        raise InvalidInput({field: fault})
    if _DECEPTIVE.search(value):
        raise InvalidInput({field: "Contains a character that reverses the direction of text; remove it."})


def nesting_exceeds(raw: bytes, max_depth: int) -> bool:
    """Whether the JSON text ``raw`` nests arrays and objects deeper than ``max_depth``; does not parse."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(raw):
        token = raw[match.start()]
        if token in b"[{":
            depth += 1
            if depth > max_depth:
                return True
        elif token in b"]}":
            depth -= 1
    return False


def loads_strict(raw: bytes) -> object:
    """Parse a UTF-8 JSON text, refusing what lenient parsers let through.

    NaN and infinities, repeated keys, integers of absurd length and nesting beyond ``MAX_DEPTH`` raise
    ``InvalidInput`` under the empty field, as malformed JSON does; put it in its place with
    ``InvalidInput.under``. Sizes of numbers and contents of texts are left to ``check_json``, which can name
    their path.
    """
    if nesting_exceeds(raw, MAX_DEPTH):
        _refuse("", None, f"Nested deeper than {MAX_DEPTH} levels; flatten it.")
    try:
        return json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise InvalidInput({"": f"Not UTF-8 at byte {error.start}."}) from error
    except json.JSONDecodeError as error:
        raise InvalidInput(
            {"": f"Not JSON at line {error.lineno} column {error.colno}: {error.msg}."}
        ) from error


def _children(
    item: dict[object, object] | list[object], field: str, place: _Place | None, depth: int
) -> list[tuple[object, _Place | None, int]]:
    if isinstance(item, list):
        return [(child, (place, index), depth + 1) for index, child in enumerate(item)]
    children: list[tuple[object, _Place | None, int]] = []
    for key, child in item.items():
        if not isinstance(key, str):
            _refuse(field, place, f"The key {key!r:.40} is not a text.")
        if fault := _text_fault(key):
            _refuse(field, (place, key), f"In the key: {fault}")
        children.append((child, (place, key), depth + 1))
    return children


def _fault(item: object) -> str | None:
    """What is wrong with a scalar, or None."""
    if item is None or isinstance(item, bool):
        return None
    if isinstance(item, str):
        return _text_fault(item)
    if isinstance(item, int):
        if abs(item) > LARGEST_INTEGER:
            return "Integers must lie between -2^53 and 2^53; send longer ones as a string."
        return None
    if isinstance(item, float):
        if not math.isfinite(item):
            return "NaN and infinities are not JSON; send null or a string."
        # Postgres gives 1e300 back as an integer of 300 digits.
        if abs(item) > LARGEST_INTEGER:
            return "Numbers must lie between -2^53 and 2^53; send larger ones as a string."
        return None
    return f"{type(item).__name__} is not a JSON type; send a string."


def _text_fault(text: str) -> str | None:
    match = _UNSTORABLE.search(text)
    if match is None:
        return None
    kind = "A NUL character" if match[0] == "\x00" else "Half of a surrogate pair"
    return f"{kind} at position {match.start()} cannot be stored; remove it."


def _refuse(field: str, place: _Place | None, message: str) -> NoReturn:
    steps = []
    while place is not None:
        place, step = place
        steps.append(_step(step))
    raise InvalidInput({(field + "".join(reversed(steps))).removeprefix("."): message})


def _refuse_size(field: str, max_bytes: int, quota: str) -> NoReturn:
    limit = f"{max_bytes} bytes as JSON" + (f", the quota {quota}" if quota else "")
    _refuse(field, None, f"Takes more than {limit}; send a reference to it instead.")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if re.fullmatch("[A-Za-z0-9_-]{1,40}", step):
        return f".{step}"
    return f"[{json.dumps(step[:_LONGEST_KEY_SHOWN])}]"


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                _refuse("", None, f"The key {_step(key).strip('.')} is given twice in one object.")
            seen.add(key)
    return mapping


def _parse_int(digits: str) -> int:
    # Before int(): its cost grows with the square of the length.
    if len(digits) > _MOST_DIGITS:
        _refuse("", None, f"An integer of {len(digits)} digits is too long; send it as a string.")
    return int(digits)


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        _refuse("", None, f"The number {text[:_LONGEST_KEY_SHOWN]} is too large; send it as a string.")
    return number


def _refuse_constant(name: str) -> NoReturn:
    _refuse("", None, f"{name} is not JSON; send null or a string.")
