"""Secrets that a definition refers to: its author learns of one that does not exist, or is not for its target."""

from collections.abc import Mapping, Sequence

from jobs.core.errors import InvalidInput
from jobs.handlers.placeholders import MAX_NAMES, may_be_sent, not_for
from tenants.models import Tenant
from tenants.vault.secrets import hosts_of


def check_secrets(wanted: Mapping[str, Sequence[str]], *, tenant: Tenant, target: str | None) -> None:
    """Refuse fields that refer to secrets ``tenant`` does not have; ``wanted`` names them by field. One look-up.

    It also refuses fields that refer to secrets that are not for ``target``, the host that would be sent them; None:
    the target is not known before they run.

    Raises ``InvalidInput`` under each such field.
    """
    named = {name for names in wanted.values() for name in names}
    if len(named) > MAX_NAMES:
        field = next(field for field, names in wanted.items() if names)
        raise InvalidInput({field: f"At most {MAX_NAMES} secrets are allowed; these are {len(named)}."})
    hosts = hosts_of(tenant=tenant, names=named)
    errors: dict[str, list[str]] = {}
    for field, names in wanted.items():
        for name in dict.fromkeys(names):
            if name not in hosts:
                wrong = f"There is no secret {name}; create it first, by PUT /secrets/{name}."
            elif target is not None and not may_be_sent(target, hosts=hosts[name]):
                wrong = not_for(target, name=name, hosts=hosts[name])
            else:
                continue
            errors.setdefault(field, []).append(wrong)
    if errors:
        raise InvalidInput(errors)
