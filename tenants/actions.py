"""The operators' actions on tenants and their API keys.

A key is shown once, when it is made (``tenants.keys``). Bad values and taken names raise Django's ``ValidationError``
by field, because this app knows nothing of jobs.
"""

import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from tenants.clock import DatabaseNow, database_now
from tenants.keys import hash_of
from tenants.models import EARLIEST, LATEST, OUT_OF_BOUNDS, ApiKey, Tenant
from tenants.quotas import NAMES
from tenants.vault.signing import DEFAULT_OVERLAP, MAX_OVERLAP, rotate_signing_secret

#: Scopes that a tenant's key may have.
TENANT_SCOPES = tuple(scope for scope in ApiKey.Scope.values if scope != ApiKey.Scope.OPERATOR)
#: Columns of a tenant that may change. Services and receivers know it by its slug.
CHANGEABLE = (
    "name",
    "status",
    "queues",
    "disabled_types",
    "require_if_match",
    "all_events",
    "circuit_breaker",
    *NAMES,
)
#: A burst means nothing without a rate.
_RATE = ("rate_per_second", "rate_burst")
_PREFIX_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


class ChangedMeanwhile(ValidationError):
    """The row is no longer as its editor saw it. ``now``: the columns that the editor saw, as they are."""

    def __init__(self, now: Mapping[str, Any]) -> None:
        super().__init__("It was changed in the meantime, and nothing was saved.", code="changed")
        self.now = dict(now)


def create_tenant(*, slug: str, name: str = "", **quotas: Any) -> Tenant:
    """Create a tenant with a fresh signing secret; ``quotas`` are columns such as ``weight`` or ``max_in_flight``.

    ``name`` defaults to the slug. Raises ``ValidationError`` by field.
    """
    tenant = Tenant(slug=slug, name=name or slug, **quotas)
    tenant.full_clean()
    _refuse_burst_alone(tenant)
    try:
        with transaction.atomic():
            tenant.save(force_insert=True)
            rotate_signing_secret(tenant=tenant)
    except IntegrityError as error:
        raise ValidationError({"slug": "A tenant with this slug exists."}) from error
    return tenant


def update_tenant(*, tenant: Tenant, seen: Mapping[str, Any] | None = None, **changes: Any) -> Tenant:
    """Change a tenant's name, status or quotas; returns it as it is now. May be repeated.

    ``seen``: columns as the caller was shown them. If one of them differs by now, nothing is changed and
    ``ChangedMeanwhile`` is raised.

    A quota below the present use is accepted: nothing is taken back, and nothing more is let in until use has fallen
    below it. The change holds from the return on, because dispatch reads the row under a lock that this call waits for.
    Raises ``ValidationError`` by field, and then nothing was changed.
    """
    if fixed := changes.keys() - CHANGEABLE:
        raise ValidationError(dict.fromkeys(sorted(fixed), "Cannot be changed."))
    with transaction.atomic():
        present = Tenant.objects.select_for_update(no_key=True).get(id=tenant.id)
        now = {name: getattr(present, name) for name in seen or ()}
        if seen is not None and now != dict(seen):
            raise ChangedMeanwhile(now)
        for name, value in changes.items():
            setattr(present, name, value)
        present.full_clean()
        if changes.keys() & set(_RATE):
            _refuse_burst_alone(present)
        present.save(update_fields=[*changes, "updated_at"])
    return present


def _refuse_burst_alone(tenant: Tenant) -> None:
    if tenant.rate_burst is not None and tenant.rate_per_second is None:
        raise ValidationError(
            {"rate_burst": "Has no effect without rate_per_second: set that too, or leave both out."}
        )


def create_api_key(
    *,
    tenant: Tenant | None,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None = None,
    rate_per_second: int | None = None,
) -> tuple[ApiKey, str]:
    """Create a key and return it with its text, which is shown this once.

    ``scopes`` holds some of ``TENANT_SCOPES``; without a tenant the key is the installation's, and ``operator`` its
    only scope. Raises ``ValidationError`` by field.
    """
    wanted = list(dict.fromkeys(scopes))
    if tenant is None and wanted != [ApiKey.Scope.OPERATOR]:
        raise ValidationError({"scopes": "A key of the installation has only the scope operator."})
    if tenant is not None and (not wanted or not set(wanted) <= set(TENANT_SCOPES)):
        raise ValidationError({"scopes": f"Choose some of {', '.join(TENANT_SCOPES)}."})
    if expires_at is not None and not EARLIEST <= expires_at <= LATEST:
        raise ValidationError({"expires_at": OUT_OF_BOUNDS})
    prefix = "".join(secrets.choice(_PREFIX_ALPHABET) for _ in range(12))
    secret = secrets.token_urlsafe(32)
    key = ApiKey(
        tenant=tenant,
        name=name,
        prefix=prefix,
        secret_hash=hash_of(secret),
        scopes=wanted,
        expires_at=expires_at,
        rate_per_second=rate_per_second,
    )
    # full_clean() would also ask the database whether its CHECKs hold, which was seen to above, and whether the random
    # prefix is taken.
    key.clean_fields(exclude={"tenant"})
    key.save(force_insert=True)
    return key, f"ck_{prefix}_{secret}"


def rotate_api_key(*, key: ApiKey, overlap: timedelta = DEFAULT_OVERLAP) -> tuple[ApiKey, str]:
    """Create a key like ``key``, which then expires after ``overlap``; returns the new key and its text.

    Raises ``ValidationError`` for a key that is revoked or has expired, and for an overlap over 30 days.
    """
    if not timedelta() <= overlap <= MAX_OVERLAP:
        raise ValidationError({"overlap_seconds": f"Must be from 0 to {MAX_OVERLAP.total_seconds():.0f}."})
    with transaction.atomic():
        locked = ApiKey.objects.select_for_update(of=("self",))
        present = locked.select_related("tenant").get(id=key.id)
        now = database_now()
        if present.revoked_at or (present.expires_at and present.expires_at <= now):
            raise ValidationError({"key": "Is revoked or has expired; create another instead."})
        successor, text = create_api_key(
            tenant=present.tenant,
            name=present.name,
            scopes=present.scopes,
            expires_at=present.expires_at,
            rate_per_second=present.rate_per_second,
        )
        present.expires_at = min(present.expires_at or LATEST, now + overlap)
        present.save(update_fields=["expires_at"])
    return successor, text


def revoke_api_key(*, key: ApiKey) -> ApiKey:
    """Refuse the key from now on. May be repeated; the time of the first call stands."""
    ApiKey.objects.filter(id=key.id, revoked_at=None).update(revoked_at=DatabaseNow())
    key.refresh_from_db()
    return key
