"""Data flow: the values that a task's payload takes from what came before it (ADR 32).

``{"$from": "extract.result.rows"}`` stands for a value within a payload, whose type is kept. It names the result of a
task upstream, ``workflow.input``, ``run.scheduled_for``, or in a map ``map.item`` or ``map.index``; names and positions
(from 0) lead further into a result, the input or an item. That is all of the language. ``carillon_value`` of migration
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
#: So many values one payload may take; each is as large as a result may be.
MAX_REFERENCES = 32
#: Each may become ten thousand triggers.
MAX_MAPS = 10
_SHAPE = "Must be like extract.result.rows, workflow.input.day or run.scheduled_for."
#: Beside results: what a path may lead into, and what it may not.
_LEADING_ON = (("workflow", "input"), ("map", "item"))
_WHOLE = (("run", "scheduled_for", ()), ("map", "index", ()))
#: As some write the place of an element: ``rows[0]``.
_POSITION = re.compile(r"\[(\d+)\]")
#: Of a secret's placeholder (jobs.handlers.placeholders), which is also left where a result held the secret itself.
_PLACEHOLDER = "{{secret:"


class Reference(NamedTuple):
    """``what`` a ``source`` has (a task, ``workflow`` or ``run``), and a ``path`` that leads further into it."""

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


#: Of the results of a map's items together, as they are stored. ``carillon_value`` has it too.
MAX_COLLECTED_BYTES = 4 * 1024 * 1024
#: In the place of a value that is larger.
TOO_LARGE = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What an attempt is a task of. ``scheduled_for`` is the run's instant, ``input`` what the run began with."""

    workflow_id: UUID
    workflow_name: str
    version: int
    run_id: UUID
    task: str
    scheduled_for: datetime
    input: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Stands in the place of a payload whose values cannot be had: why not."""

    why: str


def references(payload: object) -> set[Reference]:
    """All that a sound payload takes."""
    return {Reference.read(value[FROM]) for _, value in _each(payload, "")}


def faults(
    taking: Mapping[str, Mapping[str, object]], edges: Sequence[Edge], *, runs: Collection[str] = ()
) -> dict[str, str]:
    """What is wrong with the references of these tasks, by ``tasks.<key>.<field>.<place>``; empty: nothing.

    ``taking``: by task and field what may take values: ``payload``, of a map ``map.over``. The graph must be sound.
    ``runs``: tasks that are a run of another workflow, whose results are those of its tasks.
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
                found[place] = f"{FROM} stands for a value within a payload, not for all of it."
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
        return f"{FROM} stands alone in its object."
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
    return f"{reference}: {reference.task} is not upstream of {key}, so it need not have ended before."


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
    """Of what a job type finds wrong with a payload, by ``payload.<place>``, all that is not about a value to come."""
    places = tuple(f"{place}." for place, _ in _each(payload, "payload"))
    return {
        field: told
        for field, told in errors.items()
        if not (_POSITION.sub(r".\1", field) + ".").startswith(places)
    }


def filled(payload: object, values: Mapping[Reference, Any]) -> Any:
    """The payload with the values in their places: a copy, or an ``Unresolved`` that names the path.

    Refused is a value that holds a secret's placeholder: whoever a task calls could else have any secret sent.
    """
    for reference in references(payload):
        if reference not in values:
            return Unresolved(f"There is nothing at {reference}.")
        if values[reference] is TOO_LARGE:
            return Unresolved(f"What is at {reference} is larger than {MAX_COLLECTED_BYTES:,} bytes.")
        if _holds_secret(values[reference]):
            return Unresolved(
                f"The value at {reference} holds a placeholder of a secret, which is never taken over."
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
