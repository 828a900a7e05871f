"""The secret that signs a tenant's webhooks (Standard Webhooks): one, or two while one replaces the other.

``Tenant.webhook_secret`` holds them sealed, the newest first, separated by a blank: the worker's claim reads it with
the tenant's row, so signing costs no look-up. While there are two, requests carry both signatures, and receivers may
change over at their leisure; ``webhook_secret_retires_at`` ends it.
"""

import base64
import binascii
import secrets
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F, Func, Value

from tenants.clock import database_now
from tenants.models import Tenant
from tenants.vault.sealing import Place, Unreadable, seal, unseal

PREFIX = "whsec_"
DEFAULT_OVERLAP = timedelta(hours=24)
MAX_OVERLAP = timedelta(days=30)


def new_signing_secret() -> str:
    """32 random bytes as Standard Webhooks spells them."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def rotate_signing_secret(
    *, tenant: Tenant, secret: object = None, overlap: timedelta = DEFAULT_OVERLAP
) -> str:
    """Sign with ``secret`` (None: a fresh one) from now on, and for ``overlap`` with the one before it too; return it.

    If two were valid, the older one goes at once. To set the present secret again changes nothing, so this may be
    repeated.
    Raises ``ValidationError`` under ``secret`` or ``overlap_seconds``.
    """
    if not timedelta() <= overlap <= MAX_OVERLAP:
        raise ValidationError({"overlap_seconds": f"Must be from 0 to {MAX_OVERLAP.total_seconds():.0f}."})
    text = new_signing_secret() if secret is None else _checked(secret)
    with transaction.atomic():
        present = Tenant.objects.select_for_update(no_key=True).get(id=tenant.id)
        before = present.webhook_secret.split()[:1]
        if before and _opened(present, before[0]) == text:
            return text
        kept = before if overlap else []
        present.webhook_secret = " ".join([seal(text, place_of(present.id)), *kept])
        present.webhook_secret_retires_at = database_now() + overlap if kept else None
        present.save(update_fields=["webhook_secret", "webhook_secret_retires_at", "updated_at"])
    tenant.webhook_secret, tenant.webhook_secret_retires_at = (
        present.webhook_secret,
        present.webhook_secret_retires_at,
    )
    return text


def retire_signing_secrets() -> int:
    """Stop signing with secrets whose overlap is over. Returns how many tenants had one. May be repeated."""
    newest = Func(F("webhook_secret"), Value(" "), Value(1), function="split_part")
    with transaction.atomic():
        over = Tenant.objects.filter(webhook_secret_retires_at__lte=database_now())
        # A tenant with a locked row is left to the next time.
        free = list(over.select_for_update(skip_locked=True, no_key=True).values_list("id", flat=True))
        return over.filter(id__in=free).update(webhook_secret=newest, webhook_secret_retires_at=None)


def open_signing_secrets(tenant_id: int, sealed: str) -> str:
    """The secrets in a tenant's ``webhook_secret``, separated by blanks, newest first. Raises ``Unreadable``."""
    return " ".join([unseal(part, place_of(tenant_id)) for part in sealed.split()])


def place_of(tenant_id: int) -> Place:
    return Place(tenant_id, Tenant._meta.db_table, str(tenant_id), "webhook_secret")


def _opened(tenant: Tenant, sealed: str) -> str | None:
    try:
        return unseal(sealed, place_of(tenant.id))
    except Unreadable:  # a new one mends it
        return None


def _checked(secret: object) -> str:
    if isinstance(secret, str) and secret.startswith(PREFIX):
        try:
            raw = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raw = b""
        if 24 <= len(raw) <= 64:
            return secret
    raise ValidationError({"secret": f"Must be {PREFIX} and the base64 of 24 to 64 random bytes."})
