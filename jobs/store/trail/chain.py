"""The audit trail's checkpoints: they show that nothing was changed in the trail, or removed from it (ADR 24).

Once a minute a beat signs the changes that were written since the last checkpoint by transactions that are over, so
that no writer to the trail waits for another. A checkpoint holds the hash of those changes and the seal of the
checkpoint before; the head, one row, says which is the last. Seals are HMACs under ``settings.TRAIL_KEYS``. A person
with only the database does not know these keys. So ``verify`` reports it when a row, a checkpoint or the last
checkpoint was changed or removed.

A return of the whole database to an earlier state shows only in data that is kept elsewhere: each checkpoint's number
and seal are logged, and ``verify`` takes such an anchor.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings

from jobs.store import db
from jobs.telemetry import get_logger

log = get_logger()
#: A checkpoint holds this many changes, and the rest of the last change's transaction.
BATCH = 10_000
#: Changes older than this should have been signed.
GRACE = timedelta(minutes=10)
_PAGE = 500
_SQL = db.queries("chain")


class Broken(Exception):
    """The head was not signed by us: to go on would sign data of another writer."""


@dataclass
class ChainReport:
    """The report of ``verify``. ``findings`` have one line each; without any the trail is as it was signed."""

    changes: int = 0
    stubs: int = 0
    first: int | None = None
    last: int | None = None
    seal: str = ""
    notes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


def sign(*, limit: int = BATCH) -> int:
    """Sign the next closed range. Returns how many changes it holds; 0: there is nothing new, or another beat is at it.

    Opens a transaction. Raises ``Broken``, and Django's ``IntegrityError`` where the number is taken: the head was put
    back.
    """
    key_id = _id(settings.TRAIL_KEYS[0])
    _SQL["begin"](key_id=key_id, seal=_seal(settings.TRAIL_KEYS[0], _of_head(0, "0", "")))
    with db.atomic():
        found = _SQL["next_range"](limit=limit)
        if not found or found[0].upto_xid is None:
            return 0
        [head] = found
        if not _sealed(head.key_id, head.seal, _of_head(head.number, head.after_xid, head.last_seal)):
            raise Broken(
                "the head of the trail's checkpoints is not signed by us: see manage.py verify_trail"
            )
        [held] = _SQL["digest"](after_xid=head.after_xid, upto_xid=head.upto_xid)
        made = {
            "number": head.number + 1,
            "after_xid": head.after_xid,
            "upto_xid": head.upto_xid,
            "changes": held.changes,
            "digest": held.digest,
            "last_at": held.last_at,
            "made_at": held.now,
            "previous": head.last_seal,
            "key_id": key_id,
        }
        seal = _seal(settings.TRAIL_KEYS[0], _of_checkpoint(made))
        of_head = _of_head(made["number"], head.upto_xid, seal)
        _SQL["sign"](**made, seal=seal, head_seal=_seal(settings.TRAIL_KEYS[0], of_head))
    # Kept apart from the database, this line shows later that the whole database was put back.
    log.info("trail signed", number=made["number"], changes=held.changes, seal=seal)
    return int(held.changes)


def begin_anew() -> bool:
    """Let the next checkpoint cover all changes, after a restore renumbered them, and drop the checkpoints before.

    Needs a role that may delete checkpoints. False: nothing was ever signed.

    Raises ``Broken``.
    """
    for head in _SQL["head"]():
        if not _sealed(head.key_id, head.seal, _of_head(head.number, head.upto_xid, head.last_seal)):
            raise Broken("the head of the trail's checkpoints is not signed by us")
        key = settings.TRAIL_KEYS[0]
        seal = _seal(key, _of_head(head.number, "0", head.last_seal))
        _SQL["begin_anew"](number=head.number, key_id=_id(key), seal=seal)
        return True
    return False


def verify(*, retention: timedelta, anchor: tuple[int, str] | None = None) -> ChainReport:
    """Check the trail against its checkpoints, and these against each other and the head. ``anchor``: number and seal.

    Reads, and may run beside writers. Changes older than ``retention`` may be gone.
    """
    report = ChainReport()
    heads = _SQL["head"]()
    if not heads:
        report.findings.append("nothing is signed: no beat has run, or the head was removed")
        return report
    [head] = heads
    expired = head.now - retention
    before, first_xid, last_xid = None, "0", "0"
    for one in _checkpoints():
        _check_place(report, one, before, expired)
        _check_content(report, one, expired)
        if anchor and one.number == anchor[0] and not one.seal.startswith(anchor[1]):
            report.findings.append(f"checkpoint {one.number} has another seal than the anchor's")
        first_xid = one.after_xid if before is None else first_xid
        last_xid, before = one.upto_xid, one
    _check_end(report, head, before)
    if anchor and not (report.first or 0) <= anchor[0] <= (report.last or 0):
        report.findings.append(f"checkpoint {anchor[0]}, the anchor, is not there")
    _check_rows_beside(report, first_xid, last_xid, retention)
    return report


def _checkpoints() -> Iterator[Any]:
    after = -1
    while page := _SQL["checkpoints"](after=after, limit=_PAGE):
        yield from page
        after = page[-1].number


def _check_place(report: ChainReport, one: Any, before: Any, expired: datetime) -> None:
    """Whether it goes on from the checkpoint ``before``. ``None``: it is the first that is there."""
    if before is None:
        report.first = one.number
        if one.number != 1 and one.after_xid == "0":
            report.notes.append(f"checkpoint {one.number} starts again, after a restore")
        elif one.number != 1 and one.last_at >= expired:
            report.findings.append(f"checkpoints 1 to {one.number - 1} were removed within retention")
        return
    if one.number != before.number + 1:
        report.findings.append(f"checkpoints {before.number + 1} to {one.number - 1} were removed")
    elif one.previous != before.seal:
        report.findings.append(f"checkpoint {one.number} does not follow on checkpoint {before.number}")
    elif one.after_xid != before.upto_xid:
        report.findings.append(f"checkpoint {one.number} leaves changes out after checkpoint {before.number}")


def _check_content(report: ChainReport, one: Any, expired: datetime) -> None:
    report.last, report.seal = one.number, one.seal
    if _key(one.key_id) is None:
        report.findings.append(f"checkpoint {one.number}: its key {one.key_id} is not in CARILLON_TRAIL_KEYS")
        return
    if not _sealed(one.key_id, one.seal, _of_checkpoint(one._asdict())):
        report.findings.append(f"checkpoint {one.number} was changed: its seal does not fit")
        return
    [held] = _SQL["digest"](after_xid=one.after_xid, upto_xid=one.upto_xid)
    if (held.changes, held.digest) == (one.changes, one.digest):
        report.changes += one.changes
    elif one.last_at < expired and held.changes < one.changes:
        report.stubs += 1
    else:
        span = f"{one.changes} changes to {one.last_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        how = (
            "were changed"
            if held.changes == one.changes
            else f"are {held.changes} now: some were {'removed' if held.changes < one.changes else 'added'}"
        )
        report.findings.append(f"checkpoint {one.number}: its {span} {how}")


def _check_end(report: ChainReport, head: Any, last: Any) -> None:
    if not _sealed(head.key_id, head.seal, _of_head(head.number, head.upto_xid, head.last_seal)):
        report.findings.append("the head was changed: its seal does not fit")
    number = last.number if last else 0
    if head.upto_xid == "0" and not last:
        report.notes.append("nothing is signed yet")
    elif head.number > number:
        report.findings.append(f"checkpoints {number + 1} to {head.number}, the last, were removed")
    elif head.number < number or (last and head.last_seal != last.seal):
        report.findings.append(f"the head was put back to checkpoint {head.number}")


def _check_rows_beside(report: ChainReport, first_xid: str, last_xid: str, retention: timedelta) -> None:
    [beside] = _SQL["beside"](first_xid=first_xid, last_xid=last_xid, retention=retention, grace=GRACE)
    if beside.before:
        report.findings.append(f"{beside.before} changes stand before the first checkpoint: they were added")
    if beside.unsigned:
        since = f"{beside.unsigned_since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        report.findings.append(f"{beside.unsigned} changes since {since} are not signed: does a beat run?")


def _of_checkpoint(row: dict[str, Any]) -> str:
    told = [
        row["number"],
        row["after_xid"],
        row["upto_xid"],
        row["changes"],
        row["digest"],
        row["last_at"].astimezone(UTC).isoformat(timespec="microseconds"),
        row["made_at"].astimezone(UTC).isoformat(timespec="microseconds"),
        row["previous"],
        row["key_id"],
    ]
    return json.dumps(["checkpoint", *told])


def _of_head(number: int, upto_xid: str, last_seal: str) -> str:
    return json.dumps(["head", number, upto_xid, last_seal])


def _seal(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _sealed(key_id: str, seal: str, text: str) -> bool:
    key = _key(key_id)
    return key is not None and hmac.compare_digest(_seal(key, text), seal)


def _id(key: bytes) -> str:
    return hashlib.sha256(b"trail" + key).hexdigest()[:8]


def _key(key_id: str) -> bytes | None:
    return next((key for key in settings.TRAIL_KEYS if _id(key) == key_id), None)
