"""The changes that applying would make, by the server's own answer: it gets each definition and does nothing.

Keeps true: the steps that are carried out are those that were shown. Each write names the version that was compared, so
the write is refused if the job was edited in between.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from carillon.client import Client
from carillon.errors import Problem
from carillon.files.definitions import OWNER, Definition
from carillon.output import progress, shown
from carillon.reference import by_name

Action = Literal["create", "replace", "keep", "delete"]
_MARKS: dict[Action, str] = {"create": "+", "replace": "~", "keep": "=", "delete": "-"}
#: Fields of a job that no definition writes.
_READ_ONLY = {
    "id", "status", "status_reason", "paused_until", "version", "next_fire_at", "clock_change", "created_at",
    "updated_at", "expires_at", "last_fired_at", "last_state", "last_error_code", "consecutive_failures",
}  # fmt: skip
#: Statuses in which a job does not fire, independent of its definition.
_SILENT = {
    "cancelled": " and will not fire: delete it, then apply again.",
    "paused": " and will not fire until it is resumed{reason}",
    "completed": ": its schedule has no further firings.",
}
_OURS = (400, 404, 409, 412, 413, 422)


@dataclass(frozen=True)
class Step:
    """The action on one job; ``version`` is the one it has now, None if there is no such job.

    ``status`` and ``status_reason`` are those it will have, since no definition changes them.
    """

    name: str
    action: Action
    id: str | None = None
    version: int | None = None
    changes: list[tuple[str, Any, Any]] = field(default_factory=list)
    body: dict[str, Any] | None = None
    status: str = "active"
    status_reason: str = ""

    @property
    def condition(self) -> dict[str, str]:
        return {"If-None-Match": "*"} if self.version is None else {"If-Match": f'"{self.version}"'}

    def lines(self) -> Iterator[str]:
        yield f"{_MARKS[self.action]} {shown(self.name)}"
        for path, before, after in self.changes if self.action == "replace" else ():
            yield f"    {shown(path)}: {shown(before) or 'none'} → {shown(after) or 'none'}"

    def note(self) -> str | None:
        """Why a job will not fire although it is as its file says; None: it will fire."""
        if self.action == "delete" or self.status not in _SILENT:
            return None
        reason = f": {self.status_reason}" if self.status_reason else "."
        return f"{shown(self.name)} is {self.status}{_SILENT[self.status].format(reason=shown(reason))}"

    def document(self) -> dict[str, Any]:
        changes = [{"field": path, "before": before, "after": after} for path, before, after in self.changes]
        told = {"name": self.name, "action": self.action, "version": self.version, "changes": changes}
        return told if self.action == "delete" else {**told, "status": self.status}


def plan(client: Client, definitions: Sequence[Definition]) -> tuple[list[Step], list[str]]:
    """The step for each definition, and the refusals that the server would give, with the places in the files."""
    steps, refusals = [], []
    for definition in progress(definitions, "Comparing"):
        try:
            steps.append(_step(client, definition))
        except Problem as problem:
            if problem.status not in _OURS:
                raise
            refusals += _told(definition, problem)
    return steps, refusals


def _step(client: Client, definition: Definition) -> Step:
    path = by_name(definition.name)
    try:
        now = client.get(path)
    except Problem as problem:
        if problem.status != 404:
            raise
        now = None
    step = Step(definition.name, "create", version=now and now["version"], body=definition.body)
    then = client.send("PUT", path, definition.body, headers=step.condition, parameters={"dry_run": "true"})
    changes = list(_differences(_written(now or {}), _written(then)))
    action: Action = "create" if now is None else "replace" if then["version"] != now["version"] else "keep"
    return Step(
        definition.name,
        action,
        id=now and now["id"],
        version=step.version,
        changes=changes if action != "keep" else [],
        body=definition.body,
        status=then["status"],
        status_reason=then["status_reason"],
    )


def orphans(client: Client, *, owner: str, names: Iterable[str]) -> list[Step]:
    """Deletions of the jobs of ``owner`` that have none of these ``names``."""
    kept = set(names)
    rows = client.rows("/jobs", limit=None, labels=f"{OWNER}={owner}", fields="id,name,version")
    return [
        Step(row["name"], "delete", id=row["id"], version=row["version"])
        for row in rows
        if row["name"] not in kept
    ]


def carry_out(client: Client, steps: Sequence[Step]) -> list[str]:
    """Do the steps, each once; returns the refusals of the server. The other steps are done then."""
    refusals = []
    for step in progress([step for step in steps if step.action != "keep"], "Applying"):
        try:
            if step.action == "delete":
                client.send("DELETE", f"/jobs/{step.id}", headers=step.condition)
            else:
                client.send("PUT", by_name(step.name), step.body, headers=step.condition)
        except Problem as problem:
            if problem.status not in _OURS:
                raise
            refusals += [f"{step.name}: {line}" for line in problem.lines]
    return refusals


def _written(job: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in job.items() if name not in _READ_ONLY}


def _differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The differences by path: objects are compared member by member, all else as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            inner = f"{path}.{name}" if path else str(name)
            yield from _differences(before.get(name), after.get(name), inner)
    elif before != after:
        yield path, before, after


def _told(definition: Definition, problem: Problem) -> list[str]:
    if not problem.errors:
        return [f"{definition.place()}: {definition.name}: {line}" for line in problem.lines]
    return [
        f"{definition.place(name)}: {definition.name}: {name} → {message}" for name, message in problem.errors
    ]
