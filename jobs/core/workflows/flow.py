"""Data flow: the values that a task's payload takes from its run and from tasks before it (ADR 32).

``{"$from": "extract.result.rows"}`` stands for a value within a payload, whose type is kept. It names the result of a
task upstream, ``workflow.input``, ``run.scheduled_for``, or in a map ``map.item`` or ``map.index``. Names and positions
(from 0) lead further into a result, the input or an item. That is the whole language. ``carillon_value`` of migration
0012 finds the values.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from jobs.core.workflows.graph import Edge

T = TypeVar("T")
FROM = "$from"
#: How many values one payload may take; each may be as large as a result.
MAX_REFERENCES = 32
#: How many tasks may be maps: each may become ten thousand triggers.
MAX_MAPS = 10
_SHAPE = "Must be like extract.result.rows, workflow.input.day or run.scheduled_for."
#: Sources beside results: those that a path may lead into, and those that it may not.
_LEADING_ON = (("workflow", "input"), ("map", "item"))
_WHOLE = (("run", "scheduled_for", ()), ("map", "index", ()))
#: Another spelling of an element's place: ``rows[0]``.
_POSITION = re.compile(r"\[(\d+)\]")
#: The start of a secret's placeholder (jobs.handlers.placeholders). It also stands where a result held the secret.
_PLACEHOLDER = "{{secret:"


class Reference(NamedTuple):
    """A ``source`` (a task, ``workflow``, ``run`` or ``map``), its part ``what``, and a ``path`` further into that."""

    source: str
    what: str
    path: tuple[str, ...]

    @classmethod
    def read(cls, text: object) -> "Reference":
        """Raises ``ValueError``."""
        source, what, *path = text.split(".") if isinstance(text, str) and text.count(".") else ("", "")
        found = cls(source, what, tuple(path))
        fits = source and (what == "result" or found[:2] in _LEADING_ON or found in _WHOLE)
        if not fits or "" in path:
            raise ValueError(_SHAPE)
        return found

    @property
    def of_item(self) -> bool:
        return self.source == "map" and self.what != "result"

    @property
    def task(self) -> str | None:
        """The task whose result it is; None: it is of the run, its input or an item."""
        return self.source if self.what == "result" else None

    def __str__(self) -> str:
        return ".".join((self.source, self.what, *self.path))


#: The limit for the results of a map's items together, as they are stored. ``carillon_value`` has it too.
MAX_COLLECTED_BYTES = 4 * 1024 * 1024
#: Stands in the place of a value that is larger.
TOO_LARGE = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """The task, run and workflow of an attempt. ``scheduled_for`` is the run's instant, ``input`` the run's input."""

    workflow_id: UUID
    workflow_name: str
    version: int
    run_id: UUID
    task: str
    scheduled_for: datetime
    input: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Stands in the place of a payload whose values cannot be taken. ``why``: the reason."""

    why: str


def references(payload: object) -> set[Reference]:
    """All references of a sound payload."""
    return {Reference.read(value[FROM]) for _, value in _each(payload, "")}


def faults(
    taking: Mapping[str, Mapping[str, object]], edges: Sequence[Edge], *, runs: Collection[str] = ()
) -> dict[str, str]:
    """The faults in the references of these tasks, by ``tasks.<key>.<field>.<place>``; empty: there are none.

    ``taking``: by task and field, the parts that may take values: ``payload``, and ``map.over`` of a map. The graph
    must be sound. ``runs``: tasks that are a run of another workflow; their results are those of its tasks.
    """
    found: dict[str, str] = {}
    upstream: dict[str, set[str]] = {}
    maps = sum("map.over" in fields for fields in taking.values())
    if maps > MAX_MAPS:
        found["tasks"] = f"At most {MAX_MAPS} tasks may be maps, not {maps:,}."
    for key, fields in taking.items():
        places = [each for field, value in fields.items() for each in _each(value, f"tasks.{key}.{field}")]
        if len(places) > MAX_REFERENCES:
            found[f"tasks.{key}.{min(fields)}"] = (
                f"Must take at most {MAX_REFERENCES} values from elsewhere, not {len(places):,}."
            )
            continue
        for place, value in places:
            upstream = upstream or _upstream(taking, edges)
            if value is fields.get("payload"):
                found[place] = f"{FROM} can stand for a value in a payload, not for the whole payload."
            elif wrong := _fault(
                value, key=key, upstream=upstream[key], taking=taking, runs=runs, place=place
            ):
                found[place] = wrong
    return found


def _fault(
    value: Mapping[str, Any],
    *,
    key: str,
    upstream: set[str],
    taking: Mapping[str, Mapping[str, object]],
    runs: Collection[str],
    place: str,
) -> str:
    if len(value) > 1:
        return f"{FROM} must be the only name in its object."
    try:
        reference = Reference.read(value[FROM])
    except ValueError as error:
        return str(error)
    if reference.of_item:
        in_items = "map.over" in taking[key] and place != f"tasks.{key}.map.over"
        return "" if in_items else f"{reference}: only the payload of a map has items."
    if reference.task in runs and not reference.path:
        return f"{reference}: name a task of that workflow, too: {reference}.load."
    if reference.task is None or reference.task in upstream:
        return ""
    if reference.task not in taking:
        return f"{reference}: there is no task {reference.task}."
    return f"{reference}: {reference.task} is not upstream of {key}, so it may not have ended before."


def _upstream(keys: Iterable[str], edges: Sequence[Edge]) -> dict[str, set[str]]:
    """The tasks before each task, however far."""
    before: dict[str, list[str]] = {key: [] for key in keys}
    for edge in edges:
        before[edge.after].append(edge.before)
    found: dict[str, set[str]] = {}
    for key in TopologicalSorter(before).static_order():
        found[key] = set(before[key]).union(*(found[one] for one in before[key]))
    return found


def without_taken(errors: Mapping[str, T], payload: object) -> dict[str, T]:
    """The faults that a job type finds in a payload, by ``payload.<place>``, without those about a value to come."""
    places = tuple(f"{place}." for place, _ in _each(payload, "payload"))
    return {
        field: told
        for field, told in errors.items()
        if not (_POSITION.sub(r".\1", field) + ".").startswith(places)
    }


def filled(payload: object, values: Mapping[Reference, Any]) -> Any:
    """The payload with the values in their places: a copy, or an ``Unresolved`` that names the path.

    A value that holds a secret's placeholder is refused: else a target that a task calls could have any secret sent.
    """
    for reference in references(payload):
        if reference not in values:
            return Unresolved(f"There is no value at {reference}.")
        if values[reference] is TOO_LARGE:
            return Unresolved(f"The value at {reference} is larger than {MAX_COLLECTED_BYTES:,} bytes.")
        if _holds_secret(values[reference]):
            return Unresolved(
                f"The value at {reference} has the placeholder of a secret, which cannot be passed on."
            )
    return _filled(payload, values)


def _filled(value: Any, values: Mapping[Reference, Any]) -> Any:
    if isinstance(value, dict):
        if FROM in value:
            return values[Reference.read(value[FROM])]
        return {name: _filled(inner, values) for name, inner in value.items()}
    return [_filled(inner, values) for inner in value] if isinstance(value, list) else value


def _holds_secret(value: Any) -> bool:
    if isinstance(value, str):
        return _PLACEHOLDER in value
    if isinstance(value, dict):
        return any(_holds_secret(name) or _holds_secret(inner) for name, inner in value.items())
    return isinstance(value, list) and any(map(_holds_secret, value))


def _each(value: object, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object that names a source, with its place. Recursion is bounded: ``check_json`` has bounded the depth."""
    if isinstance(value, dict):
        if FROM in value:
            yield place, value
            return
        for name, inner in value.items():
            yield from _each(inner, f"{place}.{name}")
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _each(inner, f"{place}.{position}")
