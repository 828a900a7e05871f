"""Sealing: AES-256-GCM under the first of ``settings.ENCRYPTION_KEYS``; every one of them opens.

A sealed text reads ``v1.<key id>.<base64 of nonce, ciphertext and tag>``; the id is the beginning of the key's SHA-256,
so keys need no names. The place it is kept at (tenant, table, row, column) is authenticated with it: a value moved
to another row, column or tenant does not open. A value that does not open raises ``Unreadable``; it is never passed on
as it is.

An opened value is remembered within the process for ``REMEMBERED_SECONDS``, by the sealed text itself. So a changed
value is never mistaken for the old one, and a hundred webhooks of one tenant cost one decryption.
"""

import base64
import binascii
import hashlib
import os
import time
from functools import lru_cache
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

VERSION = "v1"
REMEMBERED_SECONDS = 60.0
_MAX_REMEMBERED = 4096
_NONCE_BYTES = 12


class Unreadable(Exception):
    """A sealed text that no key of this process opens, or that was not sealed for this place."""


class Place(NamedTuple):
    """Where a sealed text is kept; it opens nowhere else."""

    tenant_id: int
    table: str
    row: str
    column: str

    def bound(self) -> bytes:
        return "\x1f".join((VERSION, *map(str, self))).encode()


class _Key(NamedTuple):
    id: str
    cipher: AESGCM


_remembered: dict[tuple[str, Place], tuple[float, str]] = {}


def seal(text: str, place: Place) -> str:
    """``text`` sealed for ``place``; another sealed text every time."""
    key = _ring(settings.ENCRYPTION_KEYS)[0]
    nonce = os.urandom(_NONCE_BYTES)
    sealed = nonce + key.cipher.encrypt(nonce, text.encode(), place.bound())
    return f"{VERSION}.{key.id}.{base64.urlsafe_b64encode(sealed).decode()}"


def unseal(sealed: str, place: Place) -> str:
    """The text that was sealed for ``place``. Raises ``Unreadable``."""
    now = time.monotonic()
    found = _remembered.get((sealed, place))
    if found is not None and found[0] > now:
        return found[1]
    text = _unseal(sealed, place)
    if len(_remembered) >= _MAX_REMEMBERED:
        _remembered.clear()
    _remembered[sealed, place] = (now + REMEMBERED_SECONDS, text)
    return text


def forget() -> None:
    """Forget the values that were opened in this process."""
    _remembered.clear()


def key_id_of(sealed: str) -> str:
    """The id of the key that ``sealed`` was sealed under; empty if it is no sealed text."""
    version, _, rest = sealed.partition(".")
    return rest.partition(".")[0] if version == VERSION else ""


def current_prefix() -> str:
    """The beginning of every text that is sealed under the present first key."""
    return f"{VERSION}.{_ring(settings.ENCRYPTION_KEYS)[0].id}."


def _unseal(sealed: str, place: Place) -> str:
    key_id = key_id_of(sealed)
    key = next((key for key in _ring(settings.ENCRYPTION_KEYS) if key.id == key_id), None)
    if key is None:
        raise Unreadable(f"CARILLON_ENCRYPTION_KEYS has no key {key_id or '(none named)'}; put it back.")
    try:
        raw = base64.b64decode(sealed.rpartition(".")[2], altchars=b"-_", validate=True)
        return key.cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], place.bound()).decode()
    except (InvalidTag, binascii.Error, ValueError):
        raise Unreadable("A sealed value was altered, or moved here from another row.") from None


@lru_cache(maxsize=4)
def _ring(keys: tuple[bytes, ...]) -> tuple[_Key, ...]:
    return tuple(_Key(hashlib.sha256(key).hexdigest()[:8], AESGCM(key)) for key in keys)
