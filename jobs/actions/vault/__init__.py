"""Secrets that a definition refers to: whoever writes it learns of one that is not there, not the firing."""

from collections.abc import Mapping, Sequence

from jobs.core.errors import InvalidInput
from tenants.models import Tenant
from tenants.vault.secrets import missing


def check_secrets(wanted: Mapping[str, Sequence[str]], *, tenant: Tenant) -> None:
    """Refuse fields that refer to secrets ``tenant`` does not have; ``wanted`` names them by field. One look-up.

    Raises ``InvalidInput`` under each such field.
    """
    unknown = missing(tenant=tenant, names={name for names in wanted.values() for name in names})
    errors = {
        field: [
            f"There is no secret {name}; create it first, by PUT /secrets/{name}."
            for name in dict.fromkeys(names)
            if name in unknown
        ]
        for field, names in wanted.items()
    }
    if unknown:
        raise InvalidInput({field: messages for field, messages in errors.items() if messages})
