"""Two who edit one job: what differs, field by field, and whose is kept.

The form carries a digest of each field as it was opened. So it is known who changed what since, without what was there
before: what only the other one changed is theirs unless chosen otherwise, what one changed oneself is one's own.
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
#: More of a value is not shown; it is in the form, and on the job's page.
_MAX_SHOWN = 2000
_MAX_OPENED = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of which the job has another value than the form. ``both``: both changed it since it was opened."""

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
    """What the form carries of the job as it is opened."""
    return json.dumps({name: _digest(value) for name, value in definitions.written(job).items()})


def conflict(job: Job, mine: Mapping[str, Any], *, opened: str) -> Conflict:
    """What ``mine``, a whole definition as it would be stored, and the job as it is now differ in."""
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
    """What came back from the browser; nothing where it is none of ours."""
    try:
        found = loads_strict(opened[:_MAX_OPENED].encode())
    except InvalidInput:
        return {}
    return found if isinstance(found, dict) else {}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _shown(mine: Any, theirs: Any) -> tuple[str, str]:
    """Both as text; of two objects the fields alone that differ."""
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
