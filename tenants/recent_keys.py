"""Keys that were found good a moment ago, so that most calls ask the database nothing about theirs.

A process keeps a key, and its tenant as it was read with it, for ``MAX_AGE_SECONDS``: a revocation, a suspension or a
changed quota acts on each web process within one second. A key's end is kept exactly. Ages are by the process's own
steady clock; stored times are compared by the database alone. A key that was refused is not kept.

The threads share the kept keys and tenants: only read them, and let calls that change the tenant authenticate afresh.
"""

import hashlib
import threading
import time

from tenants.actions import authenticate
from tenants.models import ApiKey

#: Less than the second that is promised, because a call looks once, at its beginning.
MAX_AGE_SECONDS = 0.8
MAX_KEYS = 10_000

_lock = threading.Lock()
#: By the digest of a key's text, with the end of its time: no text of a key stays in memory.
_kept: dict[bytes, tuple[ApiKey, float]] = {}


def authenticate_recently(token: str) -> ApiKey | None:
    """As ``authenticate``, by its answer of less than ``MAX_AGE_SECONDS`` ago."""
    digest = hashlib.sha256(token.encode()).digest()
    asked_at = time.monotonic()
    kept = _kept.get(digest)
    if kept is not None and asked_at < kept[1]:
        return kept[0]
    key = authenticate(token)
    with _lock:
        if key is None:
            _kept.pop(digest, None)
        else:
            _make_room(asked_at)
            _kept[digest] = (key, asked_at + _seconds_for(key))
    return key


def _seconds_for(key: ApiKey) -> float:
    if key.expires_at is None:
        return MAX_AGE_SECONDS
    # ``now`` is the database's, read with the key.
    left: float = (key.expires_at - key.now).total_seconds()  # type: ignore[attr-defined]
    return min(MAX_AGE_SECONDS, left)


def _make_room(now: float) -> None:
    if len(_kept) < MAX_KEYS:
        return
    for digest in [digest for digest, (_, until) in _kept.items() if until <= now]:
        del _kept[digest]
    if len(_kept) >= MAX_KEYS:
        _kept.clear()
