"""How a key is recognised: ``ck_<prefix>_<secret>``.

The prefix (12 characters) finds the row and may be shown. Only the SHA-256 of the secret (256 random bits, url-safe) is
kept.

Most calls ask the database nothing about their key, because it was found good a moment ago. A process keeps a key, and
its tenant as it was read with it, for ``MAX_AGE_SECONDS``: a revocation, a suspension or a changed quota acts on each
web process within one second. A key's end is kept exactly. Ages are by the process's own steady clock; stored times are
compared by the database alone. A key that was refused is not kept.

The threads share the kept keys and tenants: only read them, and let calls that change the tenant authenticate afresh.
"""

import hashlib
import hmac
import re
import threading
import time
from datetime import timedelta
from functools import cache
from typing import TypeVar

from django.db import connection
from django.db.models import Field, Model

from tenants.clock import DatabaseNow
from tenants.models import ApiKey, Tenant

M = TypeVar("M", bound=Model)
#: Less than the second that is promised, because a call looks once, at its beginning.
MAX_AGE_SECONDS = 0.8
MAX_KEYS = 10_000
#: ``last_used_at`` is written no more often than this, so that reading does not become writing.
_USE_RECORDED_EVERY = timedelta(minutes=1)
_TOKEN = re.compile(r"ck_(?P<prefix>[a-z0-9]{12})_(?P<secret>[A-Za-z0-9_-]{43})")
#: Django would take longer to write it, for each call, than Postgres to answer it.
_LIVE_KEY = """
    SELECT carillon_now(), {columns}
    FROM tenants_apikey AS key LEFT JOIN tenants_tenant AS tenant ON tenant.id = key.tenant_id
    WHERE key.prefix = %s AND key.revoked_at IS NULL
        AND (key.expires_at IS NULL OR key.expires_at > carillon_now())
        AND tenant.status IS DISTINCT FROM %s
"""

_lock = threading.Lock()
#: By the digest of a key's text, with the end of its time: no text of a key stays in memory.
_kept: dict[bytes, tuple[ApiKey, float]] = {}


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def authenticate(token: str) -> ApiKey | None:
    """The live key whose text is ``token``, with its tenant; None for any other text.

    A key that is unknown, revoked, expired by the database's clock, or of a suspended tenant is refused alike. Notes
    the use at most once a minute.
    """
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    key = _find_live(match["prefix"])
    if key is None or not hmac.compare_digest(key.secret_hash, hash_of(match["secret"])):
        return None
    if key.last_used_at is None or key.last_used_at <= key.now - _USE_RECORDED_EVERY:  # type: ignore[attr-defined]
        ApiKey.objects.filter(id=key.id).update(last_used_at=DatabaseNow())
    return key


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


def _find_live(prefix: str) -> ApiKey | None:
    """The key with that prefix, with its tenant and the database's time as ``now``.

    None if it is revoked or has expired by that time, and if its tenant is suspended.
    """
    with connection.cursor() as cursor:
        cursor.execute(_statement(), [prefix, Tenant.Status.SUSPENDED])
        row = cursor.fetchone()
    if row is None:
        return None
    now, *values = row
    of_key = len(ApiKey._meta.concrete_fields)
    key = _made(ApiKey, values[:of_key])
    if key.tenant_id is not None:
        key.tenant = _made(Tenant, values[of_key:])
    key.now = now  # type: ignore[attr-defined]
    return key


@cache
def _statement() -> str:
    columns = [
        f'{table}."{field.column}"'
        for table, model in (("key", ApiKey), ("tenant", Tenant))
        for field in model._meta.concrete_fields
    ]
    return _LIVE_KEY.format(columns=", ".join(columns))


def _made(model: type[M], values: list[object]) -> M:
    fields = model._meta.concrete_fields
    return model.from_db(connection.alias, [field.attname for field in fields], [*map(_read, fields, values)])


def _read(field: Field, value: object) -> object:  # type: ignore[type-arg]
    read = getattr(field, "from_db_value", None)
    return read(value, None, connection) if read else value
