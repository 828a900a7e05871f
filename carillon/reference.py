"""Finding the job that is meant, by its id or by its name."""

import re
from typing import Annotated, Any
from urllib.parse import quote

import typer

from carillon.client import Client
from carillon.errors import Misuse

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
JobReference = Annotated[str, typer.Argument(metavar="JOB", help="A job's name or id.")]
TriggerId = Annotated[str, typer.Argument(metavar="TRIGGER", help="A trigger's id.")]


def is_id(reference: str) -> bool:
    return _ID.fullmatch(reference) is not None


def by_name(name: str) -> str:
    """The path of the job of that name. Raises ``Misuse`` for the two that no URL can hold."""
    if name in ("", ".", ".."):
        raise Misuse(f"{name!r} cannot be a job's name in a path; use its id.")
    return f"/jobs/by-name/{quote(name, safe='')}"


def find_job(client: Client, reference: str, **parameters: Any) -> dict[str, Any]:
    path = f"/jobs/{reference}" if is_id(reference) else by_name(reference)
    job: dict[str, Any] = client.get(path, **parameters)
    return job


def job_id(client: Client, reference: str) -> str:
    """The id of the job that is meant, asked for only if its name was given."""
    if is_id(reference):
        return reference
    return str(find_job(client, reference, fields="id")["id"])


def trigger_path(trigger: str) -> str:
    if not is_id(trigger):
        raise Misuse(f"{trigger!r} is not the id of a trigger; `carillon triggers list` shows them.")
    return f"/triggers/{trigger}"
