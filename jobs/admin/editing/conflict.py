"""Two users who edit one job: the differences, field by field, and the value that is kept.

The form carries a digest of each field as it was opened. So it is known which user changed a field since, without the
value before. A field that only the other user changed keeps that user's value unless chosen otherwise. A field that
this user changed keeps this user's value.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.actions import definition as definitions
from jobs.core.errors import InvalidInput
from jobs.core.json_rules import loads_strict
from jobs.models import Job

MINE, THEIRS = "mine", "theirs"
#: So much of a value is shown; the whole is in the form, and on the job's page.
_MAX_SHOWN = 2000
_MAX_OPENED = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A field whose value in the job is not the form's. ``both``: both users changed it since it was opened."""

    name: str
    mine: str
    theirs: str
    both: bool
    keep: str

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Conflict:
    """The job is at ``version``, saved at ``saved_at``, and not as it was when the form was opened."""

    version: int
    saved_at: datetime
    differences: list[Difference]


def opened(job: Job) -> str:
    """The text by which the form carries the job as it is opened: a digest of each field."""
    return json.dumps({name: _digest(value) for name, value in definitions.written(job).items()})


def conflict(job: Job, mine: Mapping[str, Any], *, opened: str) -> Conflict:
    """The differences between ``mine``, a whole definition as it would be stored, and the job as it is now."""
    before = _read(opened)
    theirs = definitions.written(job)
    found = []
    for name, value in theirs.items():
        own = mine.get(name)
        if own == value:
            continue
        i_did, they_did = (_digest(each) != before.get(name) for each in (own, value))
        keep = THEIRS if before and not i_did else MINE
        found.append(Difference(name, *_shown(own, value), both=i_did and they_did, keep=keep))
    return Conflict(job.version, job.updated_at, found)


def _read(opened: str) -> dict[str, Any]:
    """The digests that came back from the browser; none if the text is not Carillon's."""
    try:
        found = loads_strict(opened[:_MAX_OPENED].encode())
    except InvalidInput:
        return {}
    return found if isinstance(found, dict) else {}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _shown(mine: Any, theirs: Any) -> tuple[str, str]:
    """Both as text; of two objects only the fields that differ."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        names = [name for name in {**theirs, **mine} if mine.get(name) != theirs.get(name)]
        mine, theirs = ({name: side[name] for name in names if name in side} for side in (mine, theirs))
    return _text(mine), _text(theirs)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_text(each)}" for name, each in value.items())[:_MAX_SHOWN] or "nothing"
    if value is None or value == "":
        return "nothing"
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:_MAX_SHOWN]
