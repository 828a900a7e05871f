"""``notify`` of a job, and of a tenant for all its jobs that have none of their own: who is told of what."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from pydantic import AfterValidator, Discriminator, Field, Tag

from jobs.core.errors import InvalidInput
from jobs.handlers import registry
from jobs.shapes.base import OneOf, Shape
from jobs.shapes.terms import Text, here
from jobs.store.events.notices import WORDS

ON = tuple(WORDS.values())


def _check_url(url: str) -> str:
    registry.get("webhook").parse({"url": url})
    return url


def _check_email(email: str) -> str:
    if not settings.EMAIL_HOST:
        raise ValueError("This installation sends no e-mail; give a url.")
    try:
        validate_email(email)
    except ValidationError:
        raise ValueError("Must be an e-mail address such as ops@example.com.") from None
    return email


_Url = Annotated[str, Text(2048, pattern="^[Hh][Tt][Tt][Pp][Ss]?://"), AfterValidator(here(_check_url))]
_Email = Annotated[str, Text(254, format="email"), AfterValidator(_check_email)]


class _Notify(Shape):
    drops_null = True
    on: Annotated[
        list[Literal[ON]],  # type: ignore[valid-type]
        Field(min_length=1),
        AfterValidator(lambda given: [word for word in ON if word in given]),
    ]
    """failed: an attempt failed and is tried again."""
    url: _Url | None = None
    """Gets a signed webhook."""
    email: _Email | None = None
    """Where the installation sends e-mail."""


class NotifyByWebhook(_Notify):
    hints = {"url": "Give a url, an email, or both."}
    url: _Url
    """Gets a signed webhook."""


class NotifyByEmail(_Notify):
    email: _Email
    """Where the installation sends e-mail."""


def _kind(document: Any) -> str:
    if not isinstance(document, Mapping):
        raise InvalidInput(
            {"": 'Must be an object such as {"on": ["dead"], "url": "https://ops.example/hook"}.'}
        )
    return "email" if "email" in document and "url" not in document else "url"


class Notify(
    OneOf[
        Annotated[
            Annotated[NotifyByWebhook, Tag("url")] | Annotated[NotifyByEmail, Tag("email")],
            Discriminator(_kind),
        ]
    ]
):
    """A url, an email, or both."""

    drops_null = True

    def stored(self) -> dict[str, Any]:
        """As it is kept and shown."""
        return self.root.model_dump(exclude_none=True)
