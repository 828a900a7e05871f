"""The JSON and the text that Carillon accepts from outside, by any way in (API, admin, commands).

Postgres cannot store NUL or lone surrogates. No two JSON readers agree on integers beyond 2^53 or on repeated
keys, and deep nesting overruns the stack of most of them. All of it is refused here by ``InvalidInput`` with
the exact path, before it can become an error 500 or a row that cannot be read. Every check is iterative: no
input can exhaust our own stack, and none costs more than a few passes over its bytes, which run in C.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, islice
from typing import NoReturn

import orjson

from jobs.core.errors import InvalidInput

MAX_DEPTH = 32
LARGEST_INTEGER = 2**53
#: Up to this many bytes of a text, a refusal looks for the place of a fault. That takes Python, one step a token.
MAX_EXPLAINED = 256 * 1024
_MAX_KEY_SHOWN = 40
_MAX_DIGITS = 100

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
#: Bidirectional overrides and isolates: they make one name look like another.
_DECEPTIVE = re.compile("[\u202a-\u202e\u2066-\u2069]")
#: A key that stands apart from its colon, or looks like it.
_SPACED_KEY = re.compile(rb'"[ \t\n\r]+:')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(code for code in range(256) if code not in _STEPS)
_SCALARS = {str, int, float, bool, type(None)}
_PLAIN = _SCALARS | {dict, list}


def check_json(
    value: object,
    *,
    field: str,
    max_bytes: int | None = None,
    max_depth: int = MAX_DEPTH,
    quota: str = "",
) -> int:
    """Refuse a parsed JSON value that Postgres or another reader could not hold.

    ``max_bytes`` bounds its compact UTF-8 encoding (None: its text was bounded before it was parsed). ``max_depth``
    bounds its nested arrays and objects. ``quota`` names the quota that ``max_bytes`` comes from. Raises
    ``InvalidInput`` under the exact path of a fault, such as ``payload.body.items[3]``: the first of the least deep
    faults. Returns the size of the encoding, 0 without ``max_bytes``.
    """
    _check(value, field, max_bytes, max_depth, quota)
    if max_bytes is None:
        return 0
    # orjson knows subclasses of all types except float, such as numpy's.
    size = len(orjson.dumps(value, default=float))
    if size > max_bytes:
        _refuse_size(field, max_bytes, quota)
    return size


def _check(value: object, field: str, max_bytes: int | None, max_depth: int, quota: str) -> int:
    """As ``check_json``, but the size is only estimated from below. Returns how many keys its objects have."""
    #: Values by depth. Each depth is checked as a whole, which runs in C. A fault is placed once there is one.
    levels = [[value]]
    least_bytes = keys = 0
    while level := levels[-1]:
        kinds = set(map(type, level))
        if max_bytes is not None:
            # Count on the way, because a small object that holds another many times over has no end in sight.
            texts = [item for item in level if type(item) is str] if str in kinds else []
            least_bytes += len(level) + sum(map(len, texts))
            if least_bytes > max_bytes:
                _refuse_size(field, max_bytes, quota)
        if not _is_sound(level, kinds):
            for index, item in enumerate(level):
                if fault := _fault(item):
                    _refuse(field, _place(levels, index), fault)
        if kinds <= _SCALARS:
            break
        containers = [item for item in level if isinstance(item, dict | list)]
        if containers and len(levels) > max_depth:
            place = _place(levels, _index_of(level, containers[0]))
            _refuse(field, place, f"Nested deeper than {max_depth} levels; flatten it.")
        objects = [item for item in containers if isinstance(item, dict)]
        keys += sum(map(len, objects))
        if max_bytes is not None:
            if _has_text_keys(objects):
                least_bytes += sum(map(len, chain.from_iterable(objects)))
            if least_bytes + sum(map(len, containers)) > max_bytes:
                _refuse_size(field, max_bytes, quota)
        if not _has_sound_keys(objects):
            _refuse_key(objects, field, levels)
        levels.append(list(chain.from_iterable(map(_values, containers))))
    return keys


def check_text(value: object, *, field: str, max_length: int) -> None:
    """Refuse a value that is not a storable text of at most ``max_length`` characters.

    Raises ``InvalidInput`` under ``field``.
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
    brackets = _outside_strings(raw).translate(None, delete=_NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > max_depth


def values_exceed(raw: bytes, most: int) -> bool:
    """Whether the JSON text ``raw`` holds more than ``most`` values; does not parse.

    The outermost value is not counted; an empty array or object counts as two.
    """
    if _separators(raw) <= most:
        return False
    # Each string is a value or the key of one. So two strings belong to at least one value.
    if raw.count(b'"') - raw.count(b'\\"') > 4 * most:
        return True
    return _separators(_outside_strings(raw)) > most


def _outside_strings(raw: bytes) -> bytes:
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(raw.split(b'"')[::2])


def _separators(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def read_json(raw: bytes) -> object:
    """As ``loads_strict`` and then ``check_json`` without a limit of bytes; a third of the time if nothing is wrong."""
    try:
        value = orjson.loads(raw)
        if not _repeats_keys(raw, _check(value, "", None, MAX_DEPTH, "")):
            return value
    except (InvalidInput, orjson.JSONDecodeError):
        pass  # read again by the functions that name the fault
    value = loads_strict(raw)
    check_json(value, field="")
    return value


def _repeats_keys(raw: bytes, keys: int) -> bool:
    """Whether the JSON text ``raw`` gives a key twice in one object, if ``keys`` keys are left after parsing."""
    # A string in which a quote comes before a colon only makes it look as if there were more keys.
    if raw.count(b'":') == keys and not _SPACED_KEY.search(raw):
        return False
    return _outside_strings(raw).count(b":") != keys


def loads_strict(raw: bytes) -> object:
    """Parse a UTF-8 JSON text, refusing faults that lenient parsers let through.

    NaN and infinities, repeated keys, integers of absurd length and nesting beyond ``MAX_DEPTH`` raise
    ``InvalidInput`` under the empty field, as malformed JSON does; put it in its place with
    ``InvalidInput.under``. Sizes of numbers and contents of texts are left to ``check_json``, which can name
    their path.
    """
    if nesting_exceeds(raw, MAX_DEPTH):
        _refuse_depth()
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


def _values(item: dict[str, object] | list[object]) -> Iterable[object]:
    return item if isinstance(item, list) else item.values()


def _is_sound(level: list[object], kinds: set[type]) -> bool:
    """Whether none of the scalars among ``level``, whose types are ``kinds``, has a ``_fault``. False means maybe."""
    if not kinds <= _PLAIN:
        return False
    if int in kinds:
        integers = [item for item in level if type(item) is int]
        if min(integers) < -LARGEST_INTEGER or max(integers) > LARGEST_INTEGER:
            return False
    if float in kinds:
        numbers = [item for item in level if type(item) is float]
        if not all(map(math.isfinite, numbers)) or max(map(abs, numbers)) > LARGEST_INTEGER:
            return False
    return str not in kinds or _UNSTORABLE.search("".join([i for i in level if type(i) is str])) is None


def _has_text_keys(objects: list[dict[str, object]]) -> bool:
    return set(map(type, chain.from_iterable(objects))) <= {str}


def _has_sound_keys(objects: list[dict[str, object]]) -> bool:
    return _has_text_keys(objects) and _UNSTORABLE.search("".join(chain.from_iterable(objects))) is None


def _refuse_key(objects: list[dict[str, object]], field: str, levels: list[list[object]]) -> None:
    """Refuse the first key of the ``objects``, those of the last of ``levels``, that is no storable text."""
    for holder in objects:
        if _has_sound_keys([holder]):
            continue
        place = _place(levels, _index_of(levels[-1], holder))
        for key in holder:
            if not isinstance(key, str):
                _refuse(field, place, f"The key {key!r:.40} is not a text.")
            if fault := _text_fault(key):
                _refuse(field, (*place, key), f"In the key: {fault}")


def _index_of(level: list[object], wanted: object) -> int:
    return next(index for index, item in enumerate(level) if item is wanted)


def _place(levels: list[list[object]], index: int) -> tuple[str | int, ...]:
    """The path to the value at ``index`` of the last of ``levels``: each level holds the children of the one before."""
    steps: list[str | int] = []
    for level in reversed(levels[:-1]):
        for above, item in enumerate(level):
            if not isinstance(item, dict | list):
                continue
            if index < len(item):
                steps.append(index if isinstance(item, list) else next(islice(item, index, None)))
                index = above
                break
            index -= len(item)
    return tuple(reversed(steps))


def _fault(item: object) -> str | None:
    """The fault of a scalar; None for a sound one, and for an array or object."""
    if item is None or isinstance(item, bool | dict | list):
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


def _refuse(field: str, place: Iterable[str | int], message: str) -> NoReturn:
    raise InvalidInput({(field + "".join(map(_step, place))).removeprefix("."): message})


def _refuse_depth() -> NoReturn:
    _refuse("", (), f"Nested deeper than {MAX_DEPTH} levels; flatten it.")


def _refuse_size(field: str, max_bytes: int, quota: str) -> NoReturn:
    limit = f"{max_bytes} bytes as JSON" + (f", the quota {quota}" if quota else "")
    _refuse(field, (), f"Takes more than {limit}; send a reference to it instead.")


def _step(step: str | int, *, shown: int | None = _MAX_KEY_SHOWN) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if re.fullmatch("[A-Za-z0-9_-]{1,40}", step):
        return f".{step}"
    return f"[{json.dumps(step[:shown])}]"


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                _refuse("", (), f"The key {_step(key).strip('.')} is given twice in one object.")
            seen.add(key)
    return mapping


def _parse_int(digits: str) -> int:
    # Before int(): its cost grows with the square of the length.
    if len(digits) > _MAX_DIGITS:
        _refuse("", (), f"An integer of {len(digits)} digits is too long; send it as a string.")
    return int(digits)


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        _refuse("", (), f"The number {text[:_MAX_KEY_SHOWN]} is too large; send it as a string.")
    return number


def _refuse_constant(name: str) -> NoReturn:
    _refuse("", (), f"{name} is not JSON; send null or a string.")


def is_same(one: object, other: object) -> bool:
    """Whether two values that ``check_json`` let through are the same. Python's ``==`` takes true for 1."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(
                is_same(value, other[key]) for key, value in one.items()
            )
        case list(), list():
            return len(one) == len(other) and all(map(is_same, one, other))
        case _:
            return isinstance(one, bool) == isinstance(other, bool) and one == other


def differences(before: object, after: object, path: str = "") -> Iterator[dict[str, object]]:
    """All differences between two values that ``check_json`` let through.

    Objects are compared member by member, all else as a whole. Each difference is a ``path`` with ``before`` and
    ``after``; a side that has no such member is left out.
    """
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if not is_same(before, after):
            yield {"path": path, "before": before, "after": after}
        return
    for name in before | after:
        inner = (path + _step(name, shown=None)).removeprefix(".")
        if name in before and name in after:
            yield from differences(before[name], after[name], inner)
        else:
            yield {"path": inner, **({"before": before[name]} if name in before else {"after": after[name]})}
