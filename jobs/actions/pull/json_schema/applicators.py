"""The keywords of JSON Schema 2020-12 that apply other schemas: to the same value, to its members, to its items.

As in ``keywords``, a reader returns its keyword's question. The names or indexes of a value that a schema knew are
gathered on the way, for ``unevaluatedProperties`` and ``unevaluatedItems``, which are asked last.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jobs.actions.pull.json_schema.asking import Ask, Asking, Known, Node, Place
from jobs.actions.pull.json_schema.keywords import demand, is_count

if TYPE_CHECKING:
    from jobs.actions.pull.json_schema.reading import Reader, ReadKeyword


def _add(asking: Asking, known: Known, found: Known | None) -> bool:
    if found is None:
        return False
    asking.spend(len(found))
    known |= found
    return True


def _reference(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    target = reader.reference(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        return _add(asking, known, asking.of(target, value, place))

    return ask


def _all_of(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    nodes = reader.nodes(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        fits = True
        for node in nodes:
            fits = _add(asking, known, asking.of(node, value, place)) and fits
            if asking.quiet and not fits:
                break
        return fits

    return ask


def _some_of(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    """``anyOf`` and ``oneOf``."""
    nodes = reader.nodes(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        fitting = sum(_add(asking, known, asking.quietly(node, value)) for node in nodes)
        if fitting == 1 or (fitting and keyword == "anyOf"):
            return True
        asking.fault(place, keyword, schema[keyword])
        return False

    return ask


def _not(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    node = reader.node(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, _: Known) -> bool:
        if asking.quietly(node, value) is None:
            return True
        asking.fault(place, keyword, schema[keyword])
        return False

    return ask


def _if(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    condition = reader.node(schema[keyword], path)
    branches = {
        name: reader.node(schema.get(name, True), f"{path.removesuffix('.if')}.{name}")
        for name in ("then", "else")
    }

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        branch = "then" if _add(asking, known, asking.quietly(condition, value)) else "else"
        return _add(asking, known, asking.of(branches[branch], value, place))

    return ask


def _read_alone(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> None:
    """``then`` and ``else`` without ``if`` ask nothing, but must be schemas."""
    if "if" not in schema:
        reader.node(schema[keyword], path)


def _dependent(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    nodes = reader.named(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        if not isinstance(value, dict):
            return True
        asking.spend(len(nodes))
        given = [node for name, node in nodes.items() if name in value]
        return not [1 for node in given if not _add(asking, known, asking.of(node, value, place))]

    return ask


def _properties(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    nodes = reader.named(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        if not isinstance(value, dict):
            return True
        fewer, others = (nodes, value) if len(nodes) < len(value) else (value, nodes)
        asking.spend(len(fewer))
        return _each_member(
            asking, value, [(name, nodes[name]) for name in fewer if name in others], place, known
        )

    return ask


def _pattern_properties(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    named = reader.named(schema[keyword], path)
    nodes = [(reader.pattern(pattern, path, f"{pattern[:40]!r}: "), node) for pattern, node in named.items()]

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        if not isinstance(value, dict):
            return True
        matching = (
            (name, node) for pattern, node in nodes for name in value if _matches(asking, pattern, name)
        )
        return _each_member(asking, value, matching, place, known)

    return ask


def _additional(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    node = reader.node(schema[keyword], path)
    names = schema.get("properties", {})
    patterns = [reader.read_pattern(pattern) for pattern in schema.get("patternProperties", {})]

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        if not isinstance(value, dict):
            return True
        asking.spend(len(value))
        others = [
            name
            for name in value
            if name not in names and not any(_matches(asking, pattern, name) for pattern in patterns)
        ]
        return _others(asking, value, others, node, place, known, keyword)

    return ask


def _unevaluated_properties(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    node = reader.node(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        if not isinstance(value, dict):
            return True
        asking.spend(len(value))
        return _others(
            asking, value, [name for name in value if name not in known], node, place, known, keyword
        )

    return ask


def _others(
    asking: Asking,
    value: dict[str, Any],
    names: list[str],
    node: Node,
    place: Place,
    known: Known,
    keyword: str,
) -> bool:
    """Ask the members ``names`` of ``value``, by the schema for members that no other keyword named."""
    if node.asks is None and names:
        # Told once for the object, and not for each name.
        asking.fault(place, keyword, False)
        return False
    return _each_member(asking, value, ((name, node) for name in names), place, known)


def _property_names(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    node = reader.node(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, _: Known) -> bool:
        if not isinstance(value, dict):
            return True
        return not [name for name in value if asking.of(node, name, place) is None]

    return ask


def _prefix_items(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    nodes = reader.nodes(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        if not isinstance(value, list):
            return True
        return _each_item(asking, value, zip(range(len(value)), nodes, strict=False), place, known)

    return ask


def _items(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    node = reader.node(schema[keyword], path)
    first = len(schema.get("prefixItems", []))

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        if not isinstance(value, list):
            return True
        return _each_item(asking, value, ((index, node) for index in range(first, len(value))), place, known)

    return ask


def _unevaluated_items(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    node = reader.node(schema[keyword], path)

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        if not isinstance(value, list):
            return True
        asking.spend(len(value))
        others = [(index, node) for index in range(len(value)) if index not in known]
        return _each_item(asking, value, others, place, known)

    return ask


def _contains(reader: "Reader", schema: dict[str, Any], keyword: str, path: str) -> Ask:
    node = reader.node(schema[keyword], path)
    least, most = schema.get("minContains", 1), schema.get("maxContains", float("inf"))

    def ask(asking: Asking, value: Any, place: Place, known: Known) -> bool:
        if not isinstance(value, list):
            return True
        found = [index for index, item in enumerate(value) if asking.quietly(node, item) is not None]
        known.update(found)
        if least <= len(found) <= most:
            return True
        word = "maxContains" if len(found) > most else keyword if least == 1 else "minContains"
        asking.fault(place, word, schema[word])
        return False

    return ask


def _count_of_contains(_: "Reader", schema: dict[str, Any], keyword: str, path: str) -> None:
    demand(is_count(schema[keyword]), path, "Must be a whole number from 0.")


def _each_member(
    asking: Asking, value: dict[str, Any], asked: Iterable[tuple[str, Node]], place: Place, known: Known
) -> bool:
    fits = True
    for name, node in asked:
        known.add(name)
        fits = asking.of(node, value[name], (place, name)) is not None and fits
        if asking.quiet and not fits:
            break
    return fits


def _each_item(
    asking: Asking, value: list[Any], asked: Iterable[tuple[int, Node]], place: Place, known: Known
) -> bool:
    fits = True
    for index, node in asked:
        known.add(index)
        fits = asking.of(node, value[index], (place, index)) is not None and fits
        if asking.quiet and not fits:
            break
    return fits


def _matches(asking: Asking, pattern: Any, name: str) -> bool:
    asking.spend(pattern.steps(name))
    return bool(pattern.matches(name))


READERS: "dict[str, ReadKeyword]" = {
    "$ref": _reference,
    "allOf": _all_of,
    "anyOf": _some_of,
    "oneOf": _some_of,
    "not": _not,
    "if": _if,
    "then": _read_alone,
    "else": _read_alone,
    "dependentSchemas": _dependent,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    "prefixItems": _prefix_items,
    "minContains": _count_of_contains,
    "maxContains": _count_of_contains,
    "contains": _contains,
    "items": _items,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
}
