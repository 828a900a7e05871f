"""Levers: operators' decisions for all tenants, as they are stored. Each write is on the audit trail (DESIGN §8).

A write waits for the dispatcher that serves the job type just now, so that no dispatch of a paused type follows the
commit. All functions join the caller's transaction and may be repeated; those that write say whether they changed
something.
"""

from collections.abc import Iterable
from typing import Any

from jobs.store import db
from jobs.store.trail.actor import sign_transaction

_SQL, _QUEUES = db.queries("levers"), db.queries("queues")


def stop_dispatch(*, by: str, reason: str) -> bool:
    """Dispatch nothing for any tenant, and let no queued trigger start. Another reason replaces that of a stop."""
    _SQL["know_installation"]()
    return bool(_SQL["stop"](by=by, reason=reason))


def start_dispatch() -> bool:
    """Dispatch again."""
    return bool(_SQL["start"]())


def know_type(job_type: str, *, window: int) -> None:
    """Make the queue of a job type known before a beat does; a new one begins with ``window``."""
    _QUEUES["open"](job_types=[job_type], window=window)


def pause_type(job_type: str, *, by: str, reason: str) -> bool:
    """Start nothing more of a known job type. Opens a transaction."""
    with db.atomic():
        sign_transaction()
        return bool(_SQL["pause_type"](job_type=job_type, by=by, reason=reason))


def resume_type(job_type: str) -> bool:
    """Let a job type go on. Opens a transaction."""
    with db.atomic():
        sign_transaction()
        return bool(_SQL["resume_type"](job_type=job_type))


def cap_type(job_type: str, max_in_flight: int | None) -> bool:
    """Cap the triggers in flight of a known job type, or lift the cap. Opens a transaction."""
    with db.atomic():
        sign_transaction()
        return bool(_SQL["cap_type"](job_type=job_type, max_in_flight=max_in_flight))


def types(job_types: Iterable[str], *, others: bool = False) -> list[Any]:
    """Rows of ``levers.sql: types``; ``others``: also of all types on which a lever is set."""
    return _SQL["types"](job_types=sorted(job_types), others=others)
