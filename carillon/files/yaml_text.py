"""YAML in and out.

A text is a number, a truth value or null only where YAML 1.2 reads it so: ``no``, ``on``, ``12:30``, ``0755`` and dates
stay the text they look like. Keys that come twice are refused. The output of ``dump`` is read back the same, and holds
no character that a terminal obeys.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from carillon.errors import Misuse
from carillon.unseen import for_people, holds_unseen

Path = tuple[str | int, ...]
#: Some ten thousand jobs.
_MAX_NODES = 1_000_000


class Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    #: No dates, sets and bytes, which JSON does not know.
    yaml_constructors = {
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} comes twice", key.start_mark
                )
            seen.add(key.value)
        return {str(key): value for key, value in super().construct_mapping(node, deep).items()}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


for _tag, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", "[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?[0-9]+(\.[0-9]*([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", "-+0123456789"),
    ("merge", "<<", "<"),
):
    # The dumper keeps YAML 1.1's beside these: it quotes a text that either kind of reader takes for something else.
    for _side in (Loader, _Dumper):
        _side.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})\\Z"), list(_first)
        )


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """In double quotes where the text holds a character that a terminal obeys, so that it can be escaped there."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if holds_unseen(text) else None)


_Dumper.add_representer(str, _text)


def dump(document: Any) -> str:
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return for_people(text.removesuffix("...\n"))


def load(text: str, *, source: str) -> Iterator[tuple[Any, yaml.Node]]:
    """The documents of ``text``, each with the node that knows its lines.

    Raises ``Misuse`` naming ``source`` and the line.
    """
    loader = None
    try:
        loader = Loader(text)
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            _refuse_explosion(node)
            yield loader.construct_document(node), node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise Misuse(f"{place}: not YAML: {_advice(error)}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Misuse(f"{source}: not YAML: {str(error).splitlines()[0]}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _refuse_explosion(node: yaml.Node) -> None:
    """Raise if aliases make a document endless, or larger than any document that is meant."""
    sizes: dict[int, int | None] = {}

    def size(part: yaml.Node) -> int:
        if id(part) in sizes and (known := sizes[id(part)]) is not None:
            return known
        if id(part) in sizes:
            raise yaml.composer.ComposerError(None, None, "an alias leads back to itself", part.start_mark)
        sizes[id(part)] = None
        children = part.value if isinstance(part, yaml.CollectionNode) else []
        if isinstance(part, yaml.MappingNode):
            children = [child for pair in part.value for child in pair]
        total = 1 + sum(size(child) for child in children)
        if total > _MAX_NODES:
            raise yaml.composer.ComposerError(
                None, None, "aliases make the document too large", part.start_mark
            )
        sizes[id(part)] = total
        return total

    size(node)


def line_of(node: yaml.Node, path: Sequence[str | int]) -> int:
    """The line, from 1, of the node that ``path`` leads to; otherwise of the nearest one on the way."""
    line = node.start_mark.line
    for step in path:
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(step)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = (node.value[step], node.value[step])
        if found is None:
            break
        line, node = found[0].start_mark.line, found[1]
    return int(line) + 1


def path_of(field: str) -> Path:
    """``retry_policy.delays_seconds[2]`` as steps."""
    return tuple(int(step) if step.isdigit() else step for step in re.split(r"[.\[\]]+", field) if step)


def _advice(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem or error.context)
    if "alias" in f"{problem} {error.context}":
        return f"{problem}; an expression that begins with * needs quotes."
    if "'@'" in problem or "'%'" in problem:
        return f"{problem}; a text that begins so needs quotes."
    return f"{problem}."
