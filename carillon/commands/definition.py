"""A job, or changes to one, from a file and options; the API validates them."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from carillon.errors import Misuse
from carillon.files.yaml_text import load

File = Annotated[
    Path | None, typer.Option("--file", "-f", help="YAML or JSON with one definition; - is standard input.")
]
JobType = Annotated[str | None, typer.Option("--job-type", "-t", help="One of `carillon job-types`.")]
Cron = Annotated[str | None, typer.Option("--cron", help="A cron expression, such as '0 2 * * *'.")]
Timezone = Annotated[
    str | None, typer.Option("--timezone", help="Time zone of --cron, an IANA name; UTC by default.")
]
Every = Annotated[float | None, typer.Option("--every", help="Seconds between two firings.")]
At = Annotated[str | None, typer.Option("--at", help="Fire once, at this instant (RFC 3339).")]
Payload = Annotated[
    str | None, typer.Option("--payload", help="Payload: JSON, or @FILE, or @- for standard input.")
]
Priority = Annotated[str | None, typer.Option("--priority", help="Priority: critical, high, medium or low.")]
Label = Annotated[
    list[str] | None, typer.Option("--label", "-l", help="Label, as KEY=VALUE; may be repeated.")
]


def schedule_of(
    cron: str | None, timezone: str | None, every: float | None, at: str | None
) -> dict[str, Any] | None:
    """The schedule the options name; None if they name none. Raises ``Misuse`` for several."""
    given = [
        name for name, value in (("--cron", cron), ("--every", every), ("--at", at)) if value is not None
    ]
    if len(given) > 1:
        raise Misuse(f"Give one of {', '.join(given)}.")
    if timezone is not None and cron is None:
        raise Misuse("--timezone belongs to --cron.")
    if cron is not None:
        return {"type": "cron", "cron": cron, **({"timezone": timezone} if timezone else {})}
    if every is not None:
        return {"type": "interval", "every_seconds": every}
    return {"type": "once", "run_at": at} if at is not None else None


def labels_of(given: list[str] | None) -> dict[str, str | None]:
    """``["env=prod", "old="]`` as a merge patch: an empty value takes the label away."""
    labels: dict[str, str | None] = {}
    for pair in given or []:
        key, mark, value = pair.partition("=")
        if not mark or not key:
            raise Misuse(f"--label takes KEY=VALUE, not {pair!r}.")
        labels[key] = value or None
    return labels


def read_payload(given: str, *, of: str = "--payload") -> Any:
    """The JSON of an option. Raises ``Misuse`` naming the place where it stops being JSON."""
    text = read_text(Path(given[1:])) if given.startswith("@") else given
    try:
        return json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise Misuse(f"{of}: not JSON: {error}") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} comes twice")
        found[key] = value
    return found


def read_text(path: Path) -> str:
    """A file, or standard input for ``-``. Raises ``Misuse``."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise Misuse(f"{path}: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Misuse(f"{path}:{line}: not UTF-8") from None


def read_definition(path: Path) -> dict[str, Any]:
    """The one definition in a file. Raises ``Misuse``."""
    documents = [document for document, _ in load(read_text(path), source=str(path)) if document is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise Misuse(f"{path}: must hold one definition; `carillon apply` takes several.")
    return documents[0]


def definition_of(
    *,
    file: Path | None,
    name: str | None,
    job_type: str | None,
    schedule: dict[str, Any] | None,
    payload: str | None,
    priority: str | None,
    labels: dict[str, str | None],
) -> dict[str, Any]:
    """The file's definition, with the fields that options name replaced."""
    base = read_definition(file) if file is not None else {}
    options = {
        "name": name,
        "job_type": job_type,
        "schedule": schedule,
        "priority": priority,
    }
    given = {field: value for field, value in options.items() if value is not None}
    if payload is not None:
        # null, too: it is the default.
        given["payload"] = read_payload(payload)
    if labels:
        of_file = base.get("labels")
        given["labels"] = {**(of_file if isinstance(of_file, dict) else {}), **labels}
    return base | given


def with_settings(changes: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """``changes`` with ``["schedule.cron=0 3 * * *", "labels.old=null"]`` in their place: JSON, or else a text.

    Raises ``Misuse`` for a text that is not such a setting, and for two settings that contradict each other.
    """
    for setting in settings:
        path, mark, text = setting.partition("=")
        *parents, name = path.split(".")
        if not mark or not all((*parents, name)):
            raise Misuse(f"--set takes FIELD=VALUE, not {setting!r}.")
        inner = changes
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise Misuse(f"--set {path}: {parent} is set to something else.")
        inner[name] = _value(text, path)
    return changes


def _value(text: str, path: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repetition)
    except json.JSONDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        raise Misuse(f"--set {path}: not JSON: {error}") from None
