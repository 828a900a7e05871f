"""Reading the definitions of many jobs, each with its place in the file.

A file holds documents; each is one definition, a list of them, or ``{owner: …, jobs: […]}``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from carillon.commands.definition import read_text
from carillon.errors import Misuse
from carillon.files.yaml_text import line_of, load, path_of

#: The label that names a job's owner; ``--prune`` goes by it.
OWNER = "carillon/owner"
_OWNER = re.compile("[A-Za-z0-9_./-]{1,63}", re.ASCII)
_TOP = ("owner", "jobs")


@dataclass(frozen=True)
class Definition:
    name: str
    body: dict[str, Any]
    source: str
    node: yaml.Node | None

    def place(self, field: str = "") -> str:
        """The place of a field, such as ``jobs.yaml:12``, by its path in the API; without a node the source alone."""
        if self.node is None:
            return self.source
        return f"{self.source}:{line_of(self.node, path_of(field))}"


def read_definitions(paths: Iterable[Path], *, owner: str | None) -> tuple[list[Definition], str | None]:
    """All definitions, labelled with their owner, and that owner: the option's, or the one the files agree on.

    Raises ``Misuse`` with everything that is wrong at once.
    """
    faults: list[str] = []
    items: list[tuple[Any, yaml.Node, str]] = []
    owners: dict[str, str] = {}
    for path in paths:
        for document, node in load(read_text(path), source=str(path)):
            items += _items(document, node, str(path), owners, faults)
    if owner is None and len(owners) > 1:
        faults.append(
            f"Several owners: {', '.join(f'{name} ({at})' for name, at in owners.items())}; choose by --owner."
        )
    owner = owner or next(iter(owners), None)
    if owner is not None and not _OWNER.fullmatch(owner):
        faults.append(f"owner → {owner!r} cannot be a label: 1 to 63 letters, digits and _ . / -.")
    definitions = [found for item in items if (found := _definition(*item, owner=owner, faults=faults))]
    faults += _twice(definitions)
    if faults:
        raise Misuse(*faults)
    return definitions, owner


def _items(
    document: Any, node: yaml.Node, source: str, owners: dict[str, str], faults: list[str]
) -> Iterator[tuple[Any, yaml.Node, str]]:
    if document is None:
        return
    if isinstance(document, list):
        for item, child in zip(document, node.value, strict=True):
            yield item, child, source
        return
    if not isinstance(document, dict) or not set(document) & set(_TOP):
        yield document, node, source
        return
    for name in document:
        if name not in _TOP:
            faults.append(f"{source}:{line_of(node, (name,))}: {name} → Unknown; beside jobs there is owner.")
    if (owner := document.get("owner")) is not None:
        owners.setdefault(str(owner), f"{source}:{line_of(node, ('owner',))}")
    jobs = document.get("jobs")
    if not isinstance(jobs, list):
        faults.append(f"{source}:{line_of(node, ('jobs',))}: jobs → Must be a list of definitions.")
        return
    child = next(value for key, value in node.value if key.value == "jobs")
    yield from ((item, part, source) for item, part in zip(jobs, child.value, strict=True))


def _definition(
    body: Any, node: yaml.Node, source: str, *, owner: str | None, faults: list[str]
) -> Definition | None:
    place = f"{source}:{line_of(node, ())}"
    if not isinstance(body, dict):
        faults.append(f"{place}: A job is a mapping of fields.")
        return None
    name = body.get("name")
    if not isinstance(name, str) or name in ("", ".", ".."):
        faults.append(f"{place}: name → Is required here, as a text: a job in a file is known by it.")
        return None
    if owner is not None:
        labels = body.get("labels") or {}
        if isinstance(labels, dict):
            if labels.get(OWNER, owner) != owner:
                faults.append(f"{place}: labels.{OWNER} → Is set by owner; leave it out.")
            body = body | {"labels": {**labels, OWNER: owner}}
    return Definition(name, body, source, node)


def _twice(definitions: list[Definition]) -> Iterator[str]:
    first: dict[str, Definition] = {}
    for definition in definitions:
        before = first.setdefault(definition.name, definition)
        if before is not definition:
            yield f"{definition.place('name')}: name → {definition.name!r} repeats {before.place('name')}."
