"""Values that a JSON Schema accepts, compared with another implementation, and the messages for other values."""

import random
from typing import Any

import jsonschema_rs
import pytest

from chaos.load.schemas import PAYLOADS, hostile
from jobs.actions.pull.json_schema import Allowance, Check, check_schema
from jobs.core.errors import InvalidInput

VALUES: tuple[Any, ...] = (
    *PAYLOADS[:3], {}, [], "", "a", "aab", 0, 1, 1.0, 0.3, -7, True, False, None, [1, 1.0], [[1], [True]], {"a": {}},
    {"a": "x", "b": "aab", "x": {"a": [1, "a", {"b": None}]}}, [{"a": 1}, {"a": 2}, "b", 4],
)  # fmt: skip
#: Keywords of older dialects, or for people. The other implementation checks their shape; neither applies them.
UNASKED = {"title", "definitions", "dependencies", "$recursiveRef"}
ENDLESS = "takes too long"


def complaints(schema: Any, value: Any) -> dict[str, list[str]]:
    try:
        Check(schema, Allowance())(value, field="payload")
    except InvalidInput as error:
        return error.errors
    return {}


def taken(schema: Any) -> bool:
    try:
        check_schema(schema, field="payload_schema")
    except InvalidInput:
        return False
    return True


class TestASchema:
    def test_accepts_what_another_implementation_accepts(self) -> None:
        rng = random.Random(20)
        compared = refused = 0
        for _ in range(3_000):
            schema = hostile(rng, listener="127.0.0.1:9")
            if not taken(schema):
                continue
            try:
                other = jsonschema_rs.Draft202012Validator(
                    schema, offline=True, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions()
                )
            except jsonschema_rs.ValidationError as error:
                if UNASKED.isdisjoint(map(str, error.instance_path)):
                    raise
                continue
            for value in VALUES:
                found = complaints(schema, value)
                if ENDLESS in str(found):
                    continue  # Carillon refuses circles; the other cuts them
                assert (not found) == other.is_valid(value), (schema, value, found)
                compared, refused = compared + 1, refused + bool(found)
        assert compared > 10_000
        assert compared // 10 < refused < compared - compared // 10

    @pytest.mark.parametrize(
        ("schema", "value", "path", "message"),
        [
            ({"type": ["integer", "null"]}, "x", "payload", "Must be of type integer or null."),
            ({"required": ["a"]}, {}, "payload", "Is incomplete: 'a' is a required property."),
            (
                {"required": list("abcdefg")},
                {"c": 1},
                "payload",
                "Is incomplete: 'a', 'b', 'd', 'e', 'f' and 1 more are required properties.",
            ),
            ({"properties": {"a": {"minimum": 2}}}, {"a": 1}, "payload.a", "Does not satisfy minimum: 2."),
            ({"properties": {"a": False}}, {"a": 1}, "payload.a", "Nothing is accepted here."),
            ({"prefixItems": [{}, {"const": 1}]}, [0, 2], "payload[1]", "Must be 1."),
            ({"enum": ["b", "c"]}, "SECRET", "payload", 'Must be ["b", "c"] or one of these.'),
            (
                {"properties": {"a": True}, "additionalProperties": False},
                {"b": 1, "c": 2},
                "payload",
                "Has fields that the type's schema does not know.",
            ),
            (
                {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"pattern": "^x"}}}},
                ["x", "y"],
                "payload[1]",
                'Does not satisfy pattern: "^x".',
            ),
        ],
    )
    def test_says_where_and_what_would_be_right(
        self, schema: Any, value: Any, path: str, message: str
    ) -> None:
        check_schema(schema, field="payload_schema")
        assert complaints(schema, value) == {path: [message]}

    def test_stops_at_twenty_fields(self) -> None:
        found = complaints({"additionalProperties": {"type": "string"}}, {f"k{n}": n for n in range(500)})
        assert len(found) == 20

    def test_takes_patterns_of_names(self) -> None:
        schema = {"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}
        assert complaints(schema, {"n1": 1}) == {}
        assert set(complaints(schema, {"n1": "x", "m": 1})) == {"payload.n1", "payload"}
