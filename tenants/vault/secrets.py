"""A tenant's named secrets: written and replaced, listed by name, never shown. ``{{secret:name}}`` refers to one.

Bad values raise Django's ``ValidationError`` by field, as in ``tenants.actions``.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from tenants.models import SECRET_NAME, Secret, Tenant, is_secret_name
from tenants.vault.sealing import Place, Unreadable, seal, unseal

#: Of one tenant.
MOST_SECRETS = 1000
#: Shorter ones could not be told from ordinary text where a target echoes them.
SHORTEST, LONGEST = 8, 4096
_VALUE = re.compile(rf"[\x21-\x7e](?:[\x20-\x7e]{{{SHORTEST - 2},{LONGEST - 2}}})[\x21-\x7e]")


def put_secret(*, tenant: Tenant, name: str, value: object) -> tuple[Secret, bool]:
    """Keep ``value`` under ``name``, in place of what was there; returns the secret and whether it is new.

    The same value again changes nothing. Raises ``ValidationError`` by field.
    """
    errors = {}
    if not is_secret_name(name):
        errors["name"] = SECRET_NAME.message
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        errors["value"] = (
            f"Must be a text of {SHORTEST} to {LONGEST} printable ASCII characters, without blanks at its ends."
        )
    if errors:
        raise ValidationError(errors)
    assert isinstance(value, str)
    if (replaced := _replace(tenant, name, value)) is not None:
        return replaced, False
    if Secret.objects.filter(tenant=tenant).count() >= MOST_SECRETS:
        raise ValidationError({"name": f"There are {MOST_SECRETS:,} secrets already; delete some."})
    secret = Secret(tenant=tenant, name=name)
    secret.sealed = seal(value, place_of(secret))
    try:
        with transaction.atomic():
            secret.save(force_insert=True)
    except IntegrityError:  # somebody else put it meanwhile
        return _replace(tenant, name, value) or secret, False
    return secret, True


def delete_secret(*, tenant: Tenant, name: str) -> bool:
    """Forget a secret; False when there is none. Firings that need it are buried from then on."""
    return bool(Secret.objects.filter(tenant=tenant, name=name).delete()[0])


def missing(*, tenant: Tenant, names: Collection[str]) -> set[str]:
    """Those of ``names`` that the tenant has no secret of."""
    if not names:
        return set()
    known = Secret.objects.filter(tenant=tenant, name__in=names).values_list("name", flat=True)
    return set(names) - set(known)


def open_secrets(wanted: Mapping[int, Iterable[str]]) -> dict[tuple[int, str], str | None]:
    """The values of the secrets ``wanted`` by tenant id, by (tenant id, name); one look-up.

    One that is not there is left out; of one that no key opens the value is None.
    """
    names = {name for some in wanted.values() for name in some}
    found: dict[tuple[int, str], str | None] = {}
    for secret in Secret.objects.filter(tenant_id__in=wanted, name__in=names):
        try:
            found[secret.tenant_id, secret.name] = unseal(secret.sealed, place_of(secret))
        except Unreadable:
            found[secret.tenant_id, secret.name] = None
    return found


def place_of(secret: Secret) -> Place:
    return Place(secret.tenant_id, Secret._meta.db_table, str(secret.id), "sealed")


def _replace(tenant: Tenant, name: str, value: str) -> Secret | None:
    with transaction.atomic():
        present = Secret.objects.select_for_update().filter(tenant=tenant, name=name).first()
        if present is None or _holds(present, value):
            return present
        present.sealed, present.version = seal(value, place_of(present)), present.version + 1
        present.save(update_fields=["sealed", "version", "updated_at"])
        return present


def _holds(secret: Secret, value: str) -> bool:
    try:
        return unseal(secret.sealed, place_of(secret)) == value
    except Unreadable:  # replacing it is how it is mended
        return False
