"""Schemas that a hostile tenant would declare, and payloads that it would have them check."""

import random
from typing import Any

EVIL = "a" * 34 + "!"
#: Each keyword of a schema finds something to do in one of them.
PAYLOADS: tuple[dict[str, Any], ...] = (
    {"a": 1},
    {EVIL: 1, "a": EVIL, "b": [EVIL, 1, 1.0, None, {"x": EVIL}]},
    {"a": {"a": {"a": {"b": [1, [2, [3]]]}}}, "$ref": "http://127.0.0.1:9/", "x": "", "const": {"$ref": "#"}},
    {"a": list(range(3_000)), "b": {f"k{number}": number for number in range(1_000)}},
)
_NAMES = (
    "a", "b", "x", "const", "$ref", "pattern", "properties", "0",
    "x/const", "x~1const", "x%2Fconst", "a/b", "a~1b", "a%25", "a%2Fb", "", " ", "..", "ä", "#",
)  # fmt: skip
_SAFE_NAMES = ("a", "b", "x", "const", "0", "a.b-c_d")
_BAD_PATTERNS = ("^(a+)+$", "^(a|a)*$", "(?=a)a", r"(a)\1", "(x{1000}){1000}", "(", "a" * 300, "(a?){900}b$")


def smuggling(holder: str, content: Any, name: str = "") -> dict[str, Any]:
    """A reference by a name that is legal as text, and as a pointer leads into another definition's data."""
    held = [content] if holder in ("enum", "examples") else content
    inside = f"{holder}/0" if held is not content else holder
    name = name or f"x/{inside}"
    return {"$defs": {"x": {holder: held}, name: {}}, "$ref": f"#/$defs/{name}"}


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
MANY = [1] * 20_000
DOUBLED = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(40)} | {
    "d40": {"type": "string"}
}
#: Each took the library, or the server, from one second to for ever.
BOMBS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "smuggled patternProperties": (smuggling("const", {"patternProperties": {"^(a+)+$": {}}}), {EVIL: 1}),
    "patternProperties": ({"patternProperties": {"^(a+)+$": {}}}, {EVIL: 1}),
    "another dialect within": (
        {"properties": {"a": {"$schema": DRAFT_7, "pattern": "^(a|a)*$"}}},
        {"a": EVIL},
    ),
    "a pattern": ({"properties": {"a": {"pattern": "^(a|a)*$"}}}, {"a": EVIL}),
    "references doubled forty times": ({"$defs": DOUBLED, "$ref": "#/$defs/d0"}, {"a": 1}),
    "references that go in circles": ({"$ref": "#"}, {"a": 1}),
    "circles of alternatives": ({"anyOf": [{"$ref": "#"}, {"not": {"$ref": "#"}}]}, {"a": 1}),
    "unevaluated items": ({"properties": {"a": {"contains": True, "unevaluatedItems": False}}}, {"a": MANY}),
    "unevaluated properties": (
        {"additionalProperties": True, "unevaluatedProperties": False},
        {f"k{number}": 1 for number in range(5_000)},
    ),
    "unique items": ({"properties": {"a": {"uniqueItems": True}}}, {"a": [[], *({} for _ in range(15_000))]}),
    "large numbers of enums": ({"allOf": [{"enum": [{"a": EVIL}]}] * 900}, {"a": "x" * 60_000}),
    "decimals": ({"properties": {"a": {"items": {"multipleOf": 1e-300}}}}, {"a": [0.1] * 12_000}),
    "patterns of names": (
        {"propertyNames": {"pattern": "(a?){500}b$"}},
        {f"{'a' * 100}{n}": 1 for n in range(500)},
    ),
}


def hostile(rng: random.Random, *, listener: str) -> dict[str, Any]:
    """A schema with references, names and smuggled keywords; about half of them look sound."""
    return _Maker(rng, listener, careful=rng.random() < 0.5).whole()


class _Maker:
    def __init__(self, rng: random.Random, listener: str, *, careful: bool) -> None:
        self.rng, self.listener, self.careful = rng, listener, careful
        self.names = rng.sample(_SAFE_NAMES if careful else _NAMES, rng.randint(1, 4))
        self.left = 30

    def whole(self) -> dict[str, Any]:
        schema = self.schema(0)
        schema = schema if isinstance(schema, dict) else {}
        definitions = {name: self.schema(1) for name in self.names}
        if self.rng.random() < 0.6:
            # A reference with a slash in it leads into this.
            holder = self.rng.choice(["const", "default", "enum", "examples", "x-note"])
            smuggled = self.smuggled()
            definitions["x"] = {holder: [smuggled] if holder in ("enum", "examples") else smuggled}
        return {"$defs": definitions, **schema}

    def smuggled(self) -> Any:
        return self.rng.choice(
            [
                {"$ref": self.foreign()},
                {"patternProperties": {self.rng.choice(_BAD_PATTERNS): {}}},
                {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a|a)*$"},
                {"$id": self.foreign(), "$ref": "x"},
                {"allOf": [{"$ref": "#/$defs/x/const"}] * 2},
            ]
        )

    def foreign(self) -> str:
        return self.rng.choice(
            [
                f"http://{self.listener}/x", f"https://{self.listener}/x", f"//{self.listener}/x",
                f"ftp://{self.listener}/x", "file:///etc/hostname", "file:///etc/passwd#/a", "/etc/hostname",
                "data:application/json,{}", "x.json", "urn:x:y",
                "https://json-schema.org/draft/2020-12/schema",
            ]
        )  # fmt: skip

    def reference(self) -> Any:
        sound = ["#", *(f"#/$defs/{name}" for name in self.names)]
        if self.careful or self.rng.random() < 0.3:
            return self.rng.choice(sound)
        return self.rng.choice(
            [
                *sound, "#/$defs/x/const", "#/$defs/x/default", "#/$defs/x/enum/0", "#/$defs/x/examples/0",
                "#/$defs/x~1const", "#/$defs/x%2Fconst", "#/properties/a", "#/$defs", "#a", "", "#/", "x",
                self.foreign(), self.foreign(), [], {}, None, 5, True, ["#"], 1.5,
            ]
        )  # fmt: skip

    def schema(self, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > 5:
            return self.rng.choice([True, {}, {"$ref": self.reference()}, {"type": "string"}])
        if self.rng.random() < 0.05:
            return self.rng.choice([True, False] if self.careful else [True, False, 5, None, "x", []])
        made: dict[str, Any] = {}
        for _ in range(self.rng.randint(0, 4)):
            keyword, content = self.keyword(depth)
            made[keyword] = content
        return made

    def keyword(self, depth: int) -> tuple[str, Any]:
        inner, rng = (lambda: self.schema(depth + 1)), self.rng
        kinds: list[Any] = [
            lambda: ("$ref", self.reference()),
            lambda: (rng.choice(["allOf", "anyOf", "oneOf"]), [inner() for _ in range(rng.randint(1, 3))]),
            lambda: (
                rng.choice(["not", "if", "then", "else", "items", "contains", "propertyNames"]),
                inner(),
            ),
            lambda: (
                rng.choice(["unevaluatedProperties", "unevaluatedItems", "additionalProperties"]),
                inner(),
            ),
            lambda: (
                rng.choice(["properties", "dependentSchemas"]),
                {rng.choice(_NAMES): inner() for _ in range(rng.randint(0, 3))},
            ),
            lambda: ("patternProperties", {rng.choice(["^a", "b$", "^(a+)+$", "."]): inner()}),
            lambda: ("prefixItems", [inner()]),
            lambda: (rng.choice(["const", "default"]), rng.choice([1, EVIL, {"a": 1}, self.smuggled()])),
            lambda: (rng.choice(["enum", "examples"]), [rng.choice([1, "a", self.smuggled()])]),
            lambda: ("type", rng.choice(["object", "string", ["array", "null"], "integer", "number"])),
            lambda: (rng.choice(["minLength", "maxItems", "minProperties", "minimum"]), rng.randint(0, 4)),
            lambda: ("multipleOf", rng.choice([1, 0.1, 3, 1e-300])),
            lambda: ("uniqueItems", True),
            lambda: ("required", rng.sample(_NAMES, 2)),
            lambda: ("dependentRequired", {rng.choice(_NAMES): [rng.choice(_NAMES)]}),
            lambda: ("pattern", rng.choice(["^a", "a+b", "^(a+)+$", "(a|a)*b"])),
            lambda: ("title", rng.choice(["A title", {"$ref": self.foreign()}])),
        ]
        if not self.careful:
            kinds += [
                lambda: (rng.choice(["$id", "$anchor", "$dynamicRef", "$dynamicAnchor"]), self.foreign()),
                lambda: ("$schema", rng.choice(["http://json-schema.org/draft-07/schema#", self.foreign()])),
                lambda: ("pattern", rng.choice([*_BAD_PATTERNS, 5, None])),
                lambda: (rng.choice(["id", "$recursiveRef", "definitions", "dependencies"]), self.smuggled()),
                lambda: (
                    rng.choice(
                        ["properties", "items", "allOf", "type", "enum", "required", "$defs", "multipleOf"]
                    ),
                    rng.choice([5, None, [], {}, "x", [5], -1, True, [[]]]),
                ),
            ]
        made: tuple[str, Any] = rng.choice(kinds)()
        return made
