"""Who is told of what: ``notify`` of a job, and of a tenant for all its jobs that have none of their own."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from jobs.actions.fields import Fields
from jobs.actions.vault import check_secrets
from jobs.core.errors import InvalidInput
from jobs.handlers import registry
from jobs.store.events.notices import WORDS
from tenants.models import Tenant

ON = tuple(WORDS.values())
#: What triggers become events of only where somebody asks for it.
_WATCHED = frozenset({"succeeded", "failed"})
_LONGEST_ADDRESS = 254


def read_notify(given: object, *, tenant: Tenant | None) -> dict[str, Any]:
    """Check a ``notify`` object and return what is stored of it. Raises ``InvalidInput`` by member.

    Secrets that its URL refers to are looked for among ``tenant``'s; without one they are not.
    """
    if not isinstance(given, dict):
        raise InvalidInput(
            {"": 'Must be an object such as {"on": ["dead"], "url": "https://ops.example/hook"}.'}
        )
    fields = Fields(given, known=("on", "url", "email"))
    on, url, email = fields.get("on"), fields.get("url"), fields.get("email")
    if not isinstance(on, list) or not on or not all(isinstance(word, str) and word in ON for word in on):
        fields.complain("on", f"Must be a list of some of {', '.join(ON)}.")
    if url is None and email is None:
        fields.complain("url", "Give a url, an email, or both.")
    if url is not None:
        fields.collect(lambda: _check_url(url, tenant))
    if email is not None:
        fields.collect(lambda: _check_email(email))
    fields.finish()
    stored = {"on": [word for word in ON if word in on], "url": url, "email": email}
    return {name: value for name, value in stored.items() if value is not None}


def is_watched(notify: dict[str, Any] | None) -> bool:
    """Whether it asks for what only becomes an event when somebody asks."""
    return notify is not None and not _WATCHED.isdisjoint(notify["on"])


def set_tenant_notify(*, tenant: Tenant, notify: object) -> dict[str, Any] | None:
    """Tell of all the tenant's jobs that have no ``notify`` of their own; None: of none. Raises ``InvalidInput``.

    May be repeated. Returns what is stored.
    """
    stored = (
        None if notify is None else read_notify(notify, tenant=tenant if notify != tenant.notify else None)
    )
    tenant.notify, tenant.watched = stored, is_watched(stored)
    tenant.save(update_fields=["notify", "watched", "updated_at"])
    return stored


def _check_url(url: object, tenant: Tenant | None) -> None:
    webhook = registry.get("webhook")
    try:
        webhook.parse({"url": url})
    except InvalidInput as error:
        raise InvalidInput({"url": [text for texts in error.errors.values() for text in texts]}) from None
    if tenant is not None and webhook.secrets is not None:
        wanted = webhook.secrets({"url": url})
        check_secrets({"url": [name for names in wanted.values() for name in names]}, tenant=tenant)


def _check_email(email: object) -> None:
    if not settings.EMAIL_HOST:
        raise InvalidInput({"email": "This installation sends no e-mail; give a url."})
    try:
        if not isinstance(email, str) or len(email) > _LONGEST_ADDRESS:
            raise ValidationError("")
        validate_email(email)
    except ValidationError:
        raise InvalidInput({"email": "Must be an e-mail address such as ops@example.com."}) from None
