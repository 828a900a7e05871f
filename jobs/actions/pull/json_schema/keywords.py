"""The keywords of JSON Schema 2020-12 that ask something of a value themselves: their content and their questions.

A reader is given the schema around its keyword, and its path; it returns the question. Keywords that apply other
schemas are in ``applicators``.
"""

from collections.abc import Callable
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any

from jobs.actions.pull.json_schema.asking import Ask, Asking, Known, Place
from jobs.core.errors import InvalidInput

if TYPE_CHECKING:
    from jobs.actions.pull.json_schema.reading import Reader, ReadKeyword


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return _is_number(value) and value == int(value)  # type: ignore[call-overload]


def is_count(value: object) -> bool:
    """A whole number that is not negative."""
    return _is_whole(value) and value >= 0  # type: ignore[operator]


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


_TYPES: dict[str, Callable[[object], bool]] = {
    "array": _is_list,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_whole,
    "null": lambda value: value is None,
    "number": _is_number,
    "object": _is_object,
    "string": _is_text,
}
_KIND = Callable[[object], bool]
_COUNT = (is_count, "Must be a whole number from 0.")
_NUMBER = (_is_number, "Must be a number.")
_NAMES = (_are_names, "Must be a list of different names.")


def _multiple(value: float, divisor: float) -> bool:
    # In decimal, as it is written: 0.3 is three times 0.1.
    return (Fraction(repr(value)) / Fraction(repr(divisor))).denominator == 1


#: For each keyword the kind of value it asks about, the content it takes, and the question with the value first.
_PLAIN: dict[str, tuple[_KIND, tuple[_KIND, str], Callable[[Any, Any], bool]]] = {
    "minimum": (_is_number, _NUMBER, ge),
    "maximum": (_is_number, _NUMBER, le),
    "exclusiveMinimum": (_is_number, _NUMBER, gt),
    "exclusiveMaximum": (_is_number, _NUMBER, lt),
    "multipleOf": (
        _is_number,
        (lambda it: _is_number(it) and it > 0, "Must be a number above 0."),  # type: ignore[operator]
        _multiple,
    ),
    "minLength": (_is_text, _COUNT, lambda value, least: len(value) >= least),
    "maxLength": (_is_text, _COUNT, lambda value, most: len(value) <= most),
    "minItems": (_is_list, _COUNT, lambda value, least: len(value) >= least),
    "maxItems": (_is_list, _COUNT, lambda value, most: len(value) <= most),
    "minProperties": (_is_object, _COUNT, lambda value, least: len(value) >= least),
    "maxProperties": (_is_object, _COUNT, lambda value, most: len(value) <= most),
}
#: Steps beyond the one that each question takes.
_COSTS = {"multipleOf": 20}


def _plain(_: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    demanded = schema[keyword]
    kind, (taken, otherwise), holds = _PLAIN[keyword]
    demand(taken(demanded), path, otherwise)
    cost = _COSTS.get(keyword, 0)

    def ask(asking: Asking, value: Any, place: Place, _: Known) -> bool:
        asking.spend(cost)
        if not kind(value) or holds(value, demanded):
            return True
        asking.fault(place, keyword, demanded)
        return False

    return ask


def _type(_: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    given = schema[keyword]
    names = given if isinstance(given, list) else [given]
    known = bool(names) and _are_names(names) and all(name in _TYPES for name in names)
    demand(known, path, f"Must be one of {', '.join(_TYPES)}, or a list of some of these.")
    kinds = [_TYPES[name] for name in names]

    def ask(asking: Asking, value: Any, place: Place, _: Known) -> bool:
        if any(kind(value) for kind in kinds):
            return True
        asking.fault(place, keyword, names)
        return False

    return ask


def _equal(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    """``enum`` and ``const``."""
    demanded = schema[keyword]
    demand(keyword == "const" or isinstance(demanded, list), path, "Must be a list of values.")
    # The values in a schema are bounded by its size.
    reading = Asking(under=path, steps=float("inf"))
    texts = frozenset(map(reading.text, demanded if keyword == "enum" else [demanded]))

    def ask(asking: Asking, value: Any, place: Place, _: Known) -> bool:
        if asking.text(value) in texts:
            return True
        asking.fault(place, keyword, demanded)
        return False

    return ask


def _unique(_: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask | None:
    demand(isinstance(schema[keyword], bool), path, "Must be true or false.")
    if not schema[keyword]:
        return None

    def ask(asking: Asking, value: Any, place: Place, _: Known) -> bool:
        if not isinstance(value, list) or len(set(map(asking.text, value))) == len(value):
            return True
        asking.fault(place, keyword, True)
        return False

    return ask


def _pattern(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    demanded = schema[keyword]
    pattern = reader.pattern(demanded, path)

    def ask(asking: Asking, value: Any, place: Place, _: Known) -> bool:
        if not isinstance(value, str):
            return True
        asking.spend(pattern.steps(value))
        if pattern.matches(value):
            return True
        asking.fault(place, keyword, demanded)
        return False

    return ask


def _required(_: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    names = schema[keyword]
    demand(_NAMES[0](names), path, _NAMES[1])

    def ask(asking: Asking, value: Any, place: Place, _: Known) -> bool:
        if not isinstance(value, dict):
            return True
        asking.spend(len(names))
        if all(name in value for name in names):
            return True
        asking.fault(place, keyword, [name for name in names if name not in value])
        return False

    return ask


def _dependent_required(_: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    demanded = schema[keyword]
    demand(isinstance(demanded, dict), path, "Must be an object of lists of names.")
    for name, names in demanded.items():
        demand(_NAMES[0](names), f"{path}.{name}", _NAMES[1])

    def ask(asking: Asking, value: Any, place: Place, _: Known) -> bool:
        if not isinstance(value, dict):
            return True
        asking.spend(sum(1 + len(names) for names in demanded.values()))
        if all(name in value for given, names in demanded.items() if given in value for name in names):
            return True
        asking.fault(place, keyword, demanded)
        return False

    return ask


def demand(sound: bool, path: str, otherwise: str) -> None:
    """Refuse the content of the keyword at ``path`` unless it is ``sound``."""
    if not sound:
        raise InvalidInput({path: otherwise})


READERS: "dict[str, ReadKeyword]" = {
    "type": _type,
    "enum": _equal,
    "const": _equal,
    **dict.fromkeys(_PLAIN, _plain),
    "pattern": _pattern,
    "uniqueItems": _unique,
    "required": _required,
    "dependentRequired": _dependent_required,
}
