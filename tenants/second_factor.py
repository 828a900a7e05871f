"""Second factors of operators: codes of an authenticator app (TOTP, RFC 6238), and recovery codes for a lost one.

A code is good for its own step of 30 s and one on either side, and only once. The row remembers the last step that was
used, and one statement both looks and writes, so only one of two tries with one code passes. Recovery codes are spent
in the same way. The secret is sealed and recovery codes are hashed: a copy of the database opens no console.

Steps are counted by the database's clock. This module does not tell who may ask, how often, and what it leaves on the
trail.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import CharField, F, Func, Value

from tenants.clock import database_now
from tenants.models import SecondFactor
from tenants.vault.sealing import Place, Unreadable, seal, unseal

STEP_SECONDS = 30
DIGITS = 6
#: Clocks of telephones differ.
STEPS_OFF = 1
RECOVERY_CODES = 10
_SECRET_BYTES = 20
_RECOVERY_BYTES = 10
BY_CODE, BY_RECOVERY_CODE = "password and code", "password and recovery code"
WRONG_CODE = "This is not the code that the app shows now. Check that the telephone's clock is right."


def new_secret() -> str:
    """160 random bits in base32, as apps take them by hand."""
    return base64.b32encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def offered(operator: Any) -> str:
    """A new secret, sealed for ``operator`` alone: a form carries it until it is set up."""
    return seal(new_secret(), _offer_place(operator.pk))


def open_offer(operator: Any, offer: str) -> str:
    """The secret of an offer. Raises ``Unreadable``."""
    return unseal(offer, _offer_place(operator.pk))


def app_link(secret: str, *, operator: str, issuer: str) -> str:
    """The ``otpauth:`` address that apps read from a QR code."""
    return _totp(secret).get_provisioning_uri(operator, issuer)


def code_at(secret: str, step: int) -> str:
    """The code of a step, as the app shows it."""
    return _totp(secret).generate(step * STEP_SECONDS).decode()


def present_step() -> int:
    return int(database_now().timestamp()) // STEP_SECONDS


def set_up(*, operator: Any, secret: str, code: str) -> list[str]:
    """Ask ``operator`` for codes of ``secret`` from now on, in place of an earlier one; return the recovery codes.

    ``code`` shows that the app has the secret, and is spent by it. Raises ``ValidationError`` under ``code``.
    """
    step = _step_of(secret, code)
    if step is None:
        raise ValidationError({"code": WRONG_CODE})
    codes = _new_codes()
    kept = {
        "sealed": seal(secret, place_of(operator.pk)),
        "used_step": step,
        "recovery": [_hashed(one) for one in codes],
        "set_up_at": database_now(),
    }
    with transaction.atomic():
        SecondFactor.objects.update_or_create(operator=operator, defaults=kept)
    return codes


def passed_by(*, operator: Any, code: str) -> str:
    """How ``code`` passes, ``BY_CODE`` or ``BY_RECOVERY_CODE``, and is spent by it; empty: it does not."""
    row = SecondFactor.objects.filter(pk=operator.pk)
    factor = row.first()
    if factor is None:
        return ""
    try:
        step = _step_of(unseal(factor.sealed, place_of(operator.pk)), code)
    except Unreadable:  # its key is gone: recovery codes still are there
        step = None
    if step is not None:
        return BY_CODE if row.filter(used_step__lt=step).update(used_step=step) else ""
    spent = Value(_hashed(code))
    left = Func(F("recovery"), spent, function="array_remove", output_field=CharField())
    used = row.filter(recovery__contains=[_hashed(code)]).update(recovery=left)
    return BY_RECOVERY_CODE if used else ""


def new_recovery_codes(*, operator: Any) -> list[str]:
    """Recovery codes in place of those that are left; empty where there is no second factor."""
    codes = _new_codes()
    changed = SecondFactor.objects.filter(pk=operator.pk).update(recovery=[_hashed(one) for one in codes])
    return codes if changed else []


def remove(*, operator: Any) -> bool:
    """Ask for the password alone again; False when there was nothing to remove."""
    return bool(SecondFactor.objects.filter(pk=operator.pk).delete()[0])


def place_of(operator_id: int) -> Place:
    return Place(0, SecondFactor._meta.db_table, str(operator_id), "sealed")


def _offer_place(operator_id: int) -> Place:
    return Place(0, SecondFactor._meta.db_table, str(operator_id), "offer")


def _totp(secret: str) -> TOTP:
    return TOTP(base64.b32decode(secret), DIGITS, SHA1(), STEP_SECONDS)  # noqa: S303 - apps know this one


def _step_of(secret: str, code: str) -> int | None:
    """The step near the present whose code this is. Each is compared, in the same time."""
    given, now = code.replace(" ", "").encode(), present_step()
    near = range(now - STEPS_OFF, now + STEPS_OFF + 1)
    found = [step for step in near if hmac.compare_digest(code_at(secret, step).encode(), given)]
    return max(found, default=None)


def _new_codes() -> list[str]:
    return [_spelled(secrets.token_bytes(_RECOVERY_BYTES)) for _ in range(RECOVERY_CODES)]


def _spelled(random: bytes) -> str:
    text = base64.b32encode(random).decode().lower()
    return "-".join(text[at : at + 4] for at in range(0, len(text), 4))


def _hashed(code: str) -> str:
    """The hash of a recovery code, which may come with or without hyphens and blanks."""
    plain = "".join(sign for sign in code.lower() if sign.isalnum())
    return hashlib.sha256(plain.encode()).hexdigest()
