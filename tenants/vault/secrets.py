"""A tenant's named secrets: written and replaced, listed by name, never shown. ``{{secret:name}}`` refers to one.

Bad values raise Django's ``ValidationError`` by field, as in ``tenants.actions``.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from tenants.models import SECRET_HOST, SECRET_NAME, Secret, Tenant, is_secret_name
from tenants.vault.sealing import Place, Unreadable, seal, unseal

#: The most secrets of one tenant.
MAX_SECRETS = 1000
#: The most hosts that one secret is bound to.
MAX_HOSTS = 20
#: Shorter ones could not be told from ordinary text where a target echoes them.
MIN_LENGTH, MAX_LENGTH = 8, 4096
_VALUE = re.compile(rf"[\x21-\x7e](?:[\x20-\x7e]{{{MIN_LENGTH - 2},{MAX_LENGTH - 2}}})[\x21-\x7e]")


def put_secret(*, tenant: Tenant, name: str, value: object, hosts: object = None) -> tuple[Secret, bool]:
    """Keep ``value`` under ``name``, in place of an earlier value; returns the secret and whether it is new.

    ``hosts``: those that may be sent it (``Secret.hosts``); None: those it has. To change them a caller must give the
    value again, so a secret cannot be read by sending it elsewhere. The same again changes nothing. Raises
    ``ValidationError`` by field.
    """
    errors: dict[str, Any] = {}
    if not is_secret_name(name):
        errors["name"] = SECRET_NAME.message
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        errors["value"] = (
            f"Must be a text of {MIN_LENGTH} to {MAX_LENGTH} printable ASCII characters, without blanks at its ends."
        )
    if hosts is not None and (wrong := _wrong_hosts(hosts)):
        errors["hosts"] = wrong
    if errors:
        raise ValidationError(errors)
    assert isinstance(value, str)
    bound = list(dict.fromkeys(hosts)) if isinstance(hosts, list) else None
    if (replaced := _replace(tenant, name, value, bound)) is not None:
        return replaced, False
    if bound is None:
        raise ValidationError(
            {"hosts": 'Is required: hosts that may receive it, such as ["api.example.com"]; ["*"] is any.'}
        )
    if Secret.objects.filter(tenant=tenant).count() >= MAX_SECRETS:
        raise ValidationError({"name": f"There are already {MAX_SECRETS:,} secrets; delete some."})
    secret = Secret(tenant=tenant, name=name, hosts=bound)
    secret.sealed = seal(value, place_of(secret))
    try:
        with transaction.atomic():
            secret.save(force_insert=True)
    except IntegrityError:  # another call put it in between
        return _replace(tenant, name, value, bound) or secret, False
    return secret, True


def delete_secret(*, tenant: Tenant, name: str) -> bool:
    """Forget a secret; False when there is none. Firings that need it are buried from then on."""
    return bool(Secret.objects.filter(tenant=tenant, name=name).delete()[0])


def hosts_of(*, tenant: Tenant, names: Collection[str]) -> dict[str, list[str]]:
    """The hosts each of ``names`` is bound to; a secret that is not there is left out. One look-up."""
    if not names:
        return {}
    return dict(Secret.objects.filter(tenant=tenant, name__in=names).values_list("name", "hosts"))


class Opened(NamedTuple):
    """``value`` is None where no key opens it."""

    value: str | None
    hosts: Sequence[str]


def open_secrets(wanted: Mapping[int, Iterable[str]]) -> dict[tuple[int, str], Opened]:
    """The secrets ``wanted`` by tenant id, by (tenant id, name); one that is not there is left out. One look-up."""
    names = {name for some in wanted.values() for name in some}
    found: dict[tuple[int, str], Opened] = {}
    for secret in Secret.objects.filter(tenant_id__in=wanted, name__in=names):
        try:
            value = unseal(secret.sealed, place_of(secret))
        except Unreadable:
            value = None
        found[secret.tenant_id, secret.name] = Opened(value, secret.hosts)
    return found


def place_of(secret: Secret) -> Place:
    return Place(secret.tenant_id, Secret._meta.db_table, str(secret.id), "sealed")


def _replace(tenant: Tenant, name: str, value: str, hosts: list[str] | None) -> Secret | None:
    with transaction.atomic():
        present = Secret.objects.select_for_update().filter(tenant=tenant, name=name).first()
        if present is None:
            return None
        hosts = present.hosts if hosts is None else hosts
        held = _holds(present, value)
        if held and hosts == present.hosts:
            return present
        if not held:
            present.sealed, present.version = seal(value, place_of(present)), present.version + 1
        present.hosts = hosts
        present.save(update_fields=["sealed", "version", "hosts", "updated_at"])
        return present


def _wrong_hosts(hosts: object) -> str:
    """The faults of the given hosts; empty without any."""
    if not isinstance(hosts, list) or not 1 <= len(hosts) <= MAX_HOSTS:
        return f"Must be a list of 1 to {MAX_HOSTS} hosts."
    fine = all(isinstance(host, str) and re.fullmatch(SECRET_HOST.regex, host) for host in hosts)
    return "" if fine else str(SECRET_HOST.message)


def _holds(secret: Secret, value: str) -> bool:
    try:
        return unseal(secret.sealed, place_of(secret)) == value
    except Unreadable:  # a new value mends it
        return False
