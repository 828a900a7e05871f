"""Reading a schema: each keyword that is taken becomes a question, and the rest is no part of it.

The questions are those of ``keywords`` and ``applicators``. A schema is walked once, from the outside in. References
are names of the outermost ``$defs``, and only a part that was read as a schema has such a name. So no reference leads
into data, such as ``const``, or out of the schema.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from jobs.actions.pull.json_schema import applicators, keywords
from jobs.actions.pull.json_schema.asking import Ask, Node
from jobs.actions.pull.json_schema.patterns import Pattern, Refused
from jobs.core.errors import InvalidInput

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_PATTERNS = 50
_MAX_PATH_LENGTH = 200
#: The name of a definition: neither a JSON pointer nor a URL writes such a text in another way.
_NAME = re.compile("[A-Za-z0-9_.-]{1,100}")
#: In the order in which they are asked.
_READERS = keywords.READERS | applicators.READERS
_REFUSED = {
    "$id": "Leave it out: references stay within the schema.",
    "$anchor": "Leave it out: refer to $defs by name.",
    "$dynamicRef": "Use $ref.",
    "$dynamicAnchor": "Use $ref.",
    "$vocabulary": "Leave it out.",
}


def read(schema: dict[str, Any], *, field: str) -> Node:
    """The questions of ``schema``. Its size and depth are bounded already. Raises ``InvalidInput`` below ``field``."""
    if schema.get("$schema", DIALECT) != DIALECT:
        raise InvalidInput({f"{field}.$schema": f"Must be {DIALECT}, or left out."})
    inner = {keyword: content for keyword, content in schema.items() if keyword != "$schema"}
    return Reader(inner, field).whole()


class Reader:
    """Reads for the keywords the parts of the schema around them: schemas, references and patterns."""

    def __init__(self, schema: dict[str, Any], field: str) -> None:
        self._schema, self._field = schema, field
        definitions = schema.get("$defs")
        self._defined = {name: Node() for name in definitions} if isinstance(definitions, dict) else {}
        self._whole = Node()
        self._patterns: dict[str, Pattern] = {}
        self._count = 0

    def whole(self) -> Node:
        """The schema itself, with its definitions."""
        return self.node(self._schema, self._field, self._whole, self._defined)

    def node(
        self, schema: Any, path: str, node: Node | None = None, defined: dict[str, Node] | None = None
    ) -> Node:
        """Read one schema, into ``node`` if a reference may name it."""
        node = node or Node()
        path = path[:_MAX_PATH_LENGTH]
        if isinstance(schema, bool):
            node.asks = [] if schema else None
            return node
        if not isinstance(schema, dict):
            refuse(path, 'Must be a schema: an object such as {"type": "string"}, true or false.')
        for keyword in schema:
            if keyword in _REFUSED:
                refuse(f"{path}.{keyword}", _REFUSED[keyword])
        if "$schema" in schema:
            refuse(f"{path}.$schema", "Leave it out: it stands in the outermost schema only.")
        self._define(schema.get("$defs", {}), f"{path}.$defs", defined or {})
        node.asks = list(self._asks(schema, path))
        return node

    def nodes(self, schemas: Any, path: str) -> list[Node]:
        """A list of schemas."""
        if not isinstance(schemas, list) or not schemas:
            refuse(path, "Must be a list of at least one schema.")
        return [self.node(schema, f"{path}[{index}]") for index, schema in enumerate(schemas)]

    def named(self, schemas: Any, path: str) -> dict[str, Node]:
        """Schemas by names; these are the caller's."""
        if not isinstance(schemas, dict):
            refuse(path, 'Must be an object of schemas by name, such as {"name": {"type": "string"}}.')
        return {name: self.node(schema, f"{path}.{name}") for name, schema in schemas.items()}

    def reference(self, reference: Any, path: str) -> Node:
        """The schema that ``$ref`` names; it is read by the time it is asked."""
        if reference == "#":
            return self._whole
        name = reference.removeprefix("#/$defs/") if isinstance(reference, str) else None
        if name is None or name == reference or name not in self._defined:
            refuse(path, "Must name one of the schema's own $defs, such as #/$defs/address.")
        return self._defined[name]

    def pattern(self, pattern: Any, path: str, about: str = "") -> Pattern:
        """A regular expression that is asked at ``path``; ``about`` begins the message of a refusal."""
        self._count += 1
        if self._count > MAX_PATTERNS:
            refuse(self._field, f"Has more than {MAX_PATTERNS} patterns; leave some out.")
        try:
            read = self._patterns.get(pattern) if isinstance(pattern, str) else None
            read = read or Pattern(pattern)
        except Refused as error:
            refuse(path, f"{about}{error}")
        self._patterns[pattern] = read
        return read

    def read_pattern(self, pattern: str) -> Pattern:
        """A pattern that a neighbouring keyword gave to ``pattern`` before."""
        return self._patterns[pattern]

    def _define(self, definitions: Any, path: str, defined: dict[str, Node]) -> None:
        if not isinstance(definitions, dict):
            refuse(path, 'Must be an object of schemas by name, such as {"address": {"type": "object"}}.')
        for name, schema in definitions.items():
            if not _NAME.fullmatch(name):
                shown = json.dumps(name[:40])
                refuse(
                    path, f"The name {shown} is not allowed; use 1 to 100 of A-Z, a-z, 0-9, '_', '.' and '-'."
                )
            self.node(schema, f"{path}.{name}", defined.get(name))

    def _asks(self, schema: dict[str, Any], path: str) -> Iterator[Ask]:
        for keyword, read_keyword in _READERS.items():
            if keyword not in schema:
                continue
            ask = read_keyword(self, schema, keyword, f"{path}.{keyword}"[:_MAX_PATH_LENGTH])
            if ask is not None:
                yield ask


def refuse(path: str, message: str) -> NoReturn:
    """Raises ``InvalidInput``."""
    raise InvalidInput({path: message})


ReadKeyword = Callable[[Reader, dict[str, Any], str, str], Ask | None]
