"""JSON Schemas from outside: checked when they are declared, and asked with a bound on what an answer may cost.

A schema can make its reader work exponentially (``allOf`` of references to ``allOf``), read files and fetch URLs
(``$ref``), or match a text for ever (``pattern``). So references stay within ``$defs``, patterns are RE2's
(``patterns``), and a check has so much of a processor's time. Draft 2020-12.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import jsonschema
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from jobs.actions.pull import patterns
from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_json

MAX_SCHEMA_BYTES = 32_768
MAX_SCHEMA_DEPTH = 24
#: What checking one payload may take of a processor; one of 64 KiB against a plain schema takes a tenth of it.
MOST_SECONDS = 0.5
#: What those of one call may take together; each is refused from then on.
MOST_SECONDS_OF_A_CALL = 5.0
MOST_ERRORS = 20
MOST_PATTERNS = 50
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFUSED = {
    "$id": "Leave it out: references stay within the schema.",
    "$anchor": "Leave it out: refer to $defs by name.",
    "$dynamicRef": "Use $ref.",
    "$dynamicAnchor": "Use $ref.",
    "$vocabulary": "Leave it out.",
    "patternProperties": "Not taken; use properties or additionalProperties.",
}
_TOO_LONG = "Checking it against the type's schema takes too long; simplify the schema or the payload."
_TOO_LONG_TOGETHER = "Checking all of them against their types' schemas takes too long; send fewer at once."
#: Keywords whose members are named by the caller, and keywords whose content is data.
_NAMED = frozenset({"properties", "$defs", "dependentSchemas"})
_DATA = frozenset({"const", "enum", "default", "examples"})


class _TooMuch(Exception):
    """The check took longer than it may."""


def check_schema(schema: object, *, field: str) -> None:
    """Refuse what is no JSON Schema (2020-12) of ours. Raises ``InvalidInput`` under paths below ``field``."""
    if not isinstance(schema, dict):
        raise InvalidInput({field: 'Must be a JSON Schema object, such as {"type": "object"}.'})
    check_json(schema, field=field, max_bytes=MAX_SCHEMA_BYTES, max_depth=MAX_SCHEMA_DEPTH)
    if schema.get("$schema", DIALECT) != DIALECT:
        raise InvalidInput({f"{field}.$schema": f"Must be {DIALECT}, or left out."})
    definitions = schema.get("$defs")
    names = set(definitions) if isinstance(definitions, dict) else set()
    _refuse_keywords(schema, field, {"#", *(f"#/$defs/{name}" for name in names)})
    _check_patterns(schema, field)
    try:
        Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InvalidInput({_path(field, error.absolute_path): _words(error)}) from None


@dataclass(slots=True)
class Allowance:
    """What is left of a processor's ``seconds`` for all checks of one call: a bulk may ask a thousand times."""

    seconds: float = MOST_SECONDS_OF_A_CALL


class Check:
    """A schema that ``check_schema`` took, to be asked of many values."""

    def __init__(self, schema: dict[str, Any], allowance: Allowance) -> None:
        self._allowance, self._until = allowance, 0.0
        checks = {**Draft202012Validator.VALIDATORS, "uniqueItems": _unique_items, "pattern": _pattern}
        timed = {name: self._timed(check) for name, check in checks.items()}
        self._validator = extend(Draft202012Validator, timed)(schema)

    def __call__(self, value: object, *, field: str) -> None:
        """Raises ``InvalidInput`` with paths below ``field``."""
        began = time.thread_time()
        self._until = began + min(MOST_SECONDS, self._allowance.seconds)
        errors: dict[str, list[str]] = {}
        try:
            for found in self._validator.iter_errors(value):
                errors.setdefault(_path(field, found.absolute_path), []).append(_words(found))
                if len(errors) >= MOST_ERRORS:
                    break
        except (_TooMuch, patterns.TooCostly, RecursionError):
            _refuse(field, _TOO_LONG if self._allowance.seconds > MOST_SECONDS else _TOO_LONG_TOGETHER)
        finally:
            self._allowance.seconds -= time.thread_time() - began
        if errors:
            raise InvalidInput(errors)

    def _timed(self, check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        """``check``, giving up by ``_TooMuch`` once the time is over."""

        def timed(validator: Any, content: Any, instance: Any, schema: Any) -> Iterator[Any]:
            if time.thread_time() > self._until:
                raise _TooMuch
            yield from check(validator, content, instance, schema) or ()

        return timed


def _refuse_keywords(schema: object, path: str, references: set[str]) -> None:
    if isinstance(schema, list):
        for index, item in enumerate(schema):
            _refuse_keywords(item, f"{path}[{index}]", references)
    if not isinstance(schema, dict):
        return
    for keyword, content in schema.items():
        here = f"{path}.{keyword}"
        if keyword in _REFUSED:
            _refuse(here[:200], _REFUSED[keyword])
        if keyword == "$ref" and content not in references:
            _refuse(here, "Must name one of the schema's own $defs, such as #/$defs/address.")
        if keyword in _NAMED and isinstance(content, dict):
            for name, inner in content.items():
                _refuse_keywords(inner, f"{here}.{name}"[:200], references)
        elif keyword not in _DATA:
            _refuse_keywords(content, here[:200], references)


def _check_patterns(schema: dict[str, Any], field: str) -> None:
    found = list(_patterns(schema, field))
    if len(found) > MOST_PATTERNS:
        _refuse(field, f"Has {len(found)} patterns; at most {MOST_PATTERNS} are taken.")
    for path, pattern in found:
        if fault := patterns.fault(pattern):
            _refuse(path, fault)


def _patterns(schema: object, path: str) -> Iterator[tuple[str, object]]:
    """Each ``pattern`` that is a keyword, with its path; the walk of ``_refuse_keywords``."""
    if isinstance(schema, list):
        for index, item in enumerate(schema):
            yield from _patterns(item, f"{path}[{index}]")
    if not isinstance(schema, dict):
        return
    for keyword, content in schema.items():
        here = f"{path}.{keyword}"[:200]
        if keyword == "pattern":
            yield here, content
        elif keyword in _NAMED and isinstance(content, dict):
            for name, inner in content.items():
                yield from _patterns(inner, f"{here}.{name}"[:200])
        elif keyword not in _DATA:
            yield from _patterns(content, here)


def _pattern(_: Any, wanted: str, instance: object, __: object) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, str) and not patterns.matches(wanted, instance):
        yield jsonschema.ValidationError("does not match")


def _unique_items(
    _: Any, wanted: object, instance: object, __: object
) -> Iterator[jsonschema.ValidationError]:
    # The library's own compares every item with every other.
    if wanted and isinstance(instance, list):
        texts = {json.dumps(_plain(item), sort_keys=True) for item in instance}
        if len(texts) < len(instance):
            yield jsonschema.ValidationError("has items that are not unique")


def _plain(value: object) -> object:
    """To JSON Schema 1.0 is 1. Recursion is bounded: ``check_json`` has bounded the depth."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _path(field: str, steps: Any) -> str:
    return field + "".join(f"[{step}]" if isinstance(step, int) else f".{step[:40]}" for step in steps)


def _words(error: Any) -> str:
    """What the schema demands, without the offending value: payloads hold secrets."""
    keyword, demanded = error.validator, error.validator_value
    match keyword:
        case "required":
            return f"Is incomplete: {error.message[:200]}."
        case "type":
            kinds = demanded if isinstance(demanded, list) else [demanded]
            return f"Must be of type {' or '.join(map(str, kinds))}."
        case "additionalProperties" | "unevaluatedProperties":
            return "Has fields that the type's schema does not know."
        case "enum" | "const":
            return f"Must be {json.dumps(demanded)[:200]}" + (
                " or one of these." if keyword == "enum" else "."
            )
        case None:
            return "Nothing is accepted here."
    return f"Does not satisfy {keyword}: {json.dumps(demanded)[:200]}."


def _refuse(field: str, message: str) -> NoReturn:
    raise InvalidInput({field: message})
