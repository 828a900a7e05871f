"""The events of a run, one JSON object a line: all the judge ever sees, kept so that a verdict can be given again.

Instants that a schedule names are datetimes; moments that were measured are seconds since 1970 (``…at``). Every
process of a run is on one machine, so they are of one clock, Postgres' too. A call's ``acknowledged_at`` is None when
its outcome is unknown: the requested change may have happened or not.
"""

import json
import typing
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from chaos.history.workflows import Brought, InnerRun, RunAsked, RunSeen, Steered, WorkflowMade


@dataclass(frozen=True, kw_only=True)
class Began:
    """The first line: which run this is."""

    at: float
    seed: int
    profile: str
    faults: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class TenantMade:
    """A tenant and its cap on triggers in flight."""

    slug: str
    max_in_flight: int


@dataclass(frozen=True, kw_only=True)
class JobMade:
    """A job the API acknowledged, and how the receiver treats its deliveries.

    ``target``: ``ok`` answers 200, ``flaky`` 503 to the first ``failures`` requests of a firing, ``failing`` always
    500, ``refusing`` 400, ``dropping`` breaks the connection instead of 503, ``poison`` kills its worker, ``sink``
    misbehaves. Behind ``once`` is a handler that makes an effect in a table. ``seconds`` is how long the receiver
    takes. ``fault`` is the id of the fault that this job is a part of; it is left out of the others' figures.
    """

    at: float
    job_id: str
    tenant: str
    name: str
    schedule: dict[str, Any]
    created_at: datetime
    target: str = "ok"
    seconds: float = 0.0
    failures: int = 0
    overlap_policy: str = "allow"
    max_concurrent: int = 1
    misfire_policy: str = "fire_all"
    delivery: str = "at_least_once"
    priority: str = "medium"
    max_attempts: int = 5
    retry_seconds: float = 1.0
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class Called:
    """A call about a job: ``verb`` is pause, resume, cancel or run; ``scheduled_for`` is a run's answer."""

    job_id: str
    verb: str
    requested_at: float
    acknowledged_at: float | None = None
    scheduled_for: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Started:
    """A request reached the receiver. ``delivery`` is the receiver's own number of it."""

    at: float
    delivery: int
    job_id: str
    trigger_id: str
    scheduled_for: datetime
    attempt: int
    fence: int
    execution_id: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The request was answered with ``status``, or its client went away first (``sent`` false)."""

    at: float
    delivery: int
    status: int
    sent: bool


@dataclass(frozen=True, kw_only=True)
class Struck:
    """A fault began. ``number`` is its row in docs/chaos.md; ``id`` tells this time from others of the same kind.

    ``affects`` names the tenants whose rows, jobs or links it touches; null: all tenants'. ``leader``: the leader
    itself must change. ``kills``: processes may end or be cut off by it, so that triggers they held may be executed
    again. ``clock_seconds``: how far ahead the database's clock is put while it lasts. ``resets``: its heal resets
    connections, and so is a second strike.
    """

    at: float
    id: str
    number: int
    what: str
    affects: list[str] | None = None
    leader: bool = False
    kills: bool = True
    clock_seconds: float = 0.0
    resets: bool = False


@dataclass(frozen=True, kw_only=True)
class Healed:
    """That fault is over: the broken part works again, or a supervisor has started it again."""

    at: float
    id: str


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """A standby took the place of Postgres in the fault ``id``; ``lost`` of the rows ``acknowledged`` are gone."""

    id: str
    acknowledged: int
    lost: int


@dataclass(frozen=True, kw_only=True)
class Answered:
    """How often the API gave each answer to a call that needed room, in the fault ``id`` that left none.

    An answer is its status and, unless it is 201, its media type; ``none`` when none came in time.
    """

    id: str
    answers: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """The attacks of a hostile tenant in the fault ``id``.

    ``answers``: by attack, how often the API answered in which way, a status or an error of the connection.
    ``limits``: by the name of the limit, the most that was seen, and the most that is allowed.
    """

    id: str
    answers: dict[str, dict[str, int]]
    limits: dict[str, list[float]]


@dataclass(frozen=True, kw_only=True)
class Probed:
    """A call by another tenant, beside the attacks; ``status`` is 0 where no answer came."""

    at: float
    path: str
    seconds: float
    status: int


@dataclass(frozen=True, kw_only=True)
class Died:
    """A process ended that no fault had killed; ``says`` is how its log ended."""

    at: float
    process: str
    code: int
    says: str = ""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """One trigger as the API shows it. It is read twice at the end: a trigger that has ended stays as it is."""

    at: float
    reading: int
    job_id: str
    trigger_id: str
    scheduled_for: datetime
    state: str
    reason: str
    fence: int
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Range:
    """A run of skipped firings the ledger keeps as one record; both ends are among them."""

    job_id: str
    from_at: datetime
    until_at: datetime
    count: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Effect:
    """How often a firing of an exactly-once job had its effect, by the table that its handler writes to."""

    job_id: str
    scheduled_for: datetime
    count: int


@dataclass(frozen=True, kw_only=True)
class Audited:
    """The output of ``manage.py audit_firings``."""

    at: float
    passed: bool
    says: str


@dataclass(frozen=True, kw_only=True)
class Closed:
    """The receiver's log was read: later requests are not in this history."""

    at: float


Record = (
    Began
    | TenantMade
    | JobMade
    | Called
    | Started
    | Ended
    | WorkflowMade
    | RunAsked
    | Steered
    | Brought
    | RunSeen
    | InnerRun
    | Struck
    | Healed
    | Replaced
    | Answered
    | Attacked
    | Probed
    | Died
    | Ledger
    | Range
    | Effect
    | Audited
    | Closed
)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in typing.get_args(Record)}
_INSTANTS = {
    name: [key for key, hint in typing.get_type_hints(kind).items() if hint in (datetime, datetime | None)]
    for name, kind in _KINDS.items()
}


def to_line(record: Record) -> str:
    """The record as one line of JSON, without a line break."""
    document = {"kind": type(record).__name__, **asdict(record)}
    return json.dumps(document, default=datetime.isoformat, separators=(",", ":"))


def from_line(line: str) -> Record:
    """The record that a line holds. Raises ``ValueError`` when it holds none."""
    document = json.loads(line)
    name = document.pop("kind", None) if isinstance(document, dict) else None
    if name not in _KINDS:
        raise ValueError(f"not a line of a history: {line:.80}")
    for key in _INSTANTS[name]:
        if document.get(key):
            document[key] = datetime.fromisoformat(document[key])
    try:
        return typing.cast(Record, _KINDS[name](**document))
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None


def read(path: Path) -> Iterator[Record]:
    """The records of a file. A last line that was cut off by a kill is left out; raises ``ValueError`` for others."""
    with path.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield from_line(line)


def write(path: Path, records: Iterable[Record]) -> None:
    """Replace the file by these records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{to_line(record)}\n" for record in records))


class Journal:
    """A history being written: every record is on file before ``note`` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("a", buffering=1)

    def note(self, record: Record) -> None:
        """Append a record; several threads may, since a line is one write."""
        self._file.write(f"{to_line(record)}\n")

    def close(self) -> None:
        self._file.close()
