"""Answers to calls with an ``Idempotency-Key``, stored in the transaction that did the work, and kept for a day."""

import hashlib
import json
from datetime import timedelta
from typing import Any

from jobs.store import db

_SQL = db.queries("answers")
KEPT_FOR = timedelta(hours=24)


def take_key(*, tenant_id: int, key: str) -> bool:
    """Hold the key alone until the transaction ends; False: another call holds it. Never waits."""
    # If the digests of two keys agree in 64 bits, one call is only told to come again.
    digest = hashlib.sha256(f"answer:{tenant_id}:{key}".encode()).digest()
    [row] = _SQL["take_key"](lock=int.from_bytes(digest[:8], "big", signed=True))
    return bool(row.free)


def find(*, tenant_id: int, key: str) -> Any:
    """The answer kept for the key: a row with ``fingerprint``, ``status``, ``headers`` and ``body``; or None."""
    rows = _SQL["find"](tenant_id=tenant_id, key=key, kept_for=KEPT_FOR)
    return rows[0] if rows else None


def kept_bytes(*, tenant_id: int) -> int:
    """How much is kept for a tenant: bodies, and 500 bytes for the rest of each answer."""
    [row] = _SQL["kept_bytes"](tenant_id=tenant_id)
    return int(row.bytes)


def keep(
    *, tenant_id: int, key: str, fingerprint: bytes, status: int, headers: dict[str, str], body: bytes
) -> None:
    """Keep an answer from now on. Call in the transaction that did the work, with the key taken."""
    _SQL["keep"](
        tenant_id=tenant_id,
        key=key,
        fingerprint=fingerprint,
        status=status,
        headers=json.dumps(headers),
        body=body,
    )


def purge(*, limit: int) -> int:
    """Delete up to ``limit`` answers older than a day. Returns how many."""
    return len(_SQL["purge"](kept_for=KEPT_FOR, limit=limit))
