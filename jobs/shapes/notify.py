"""``notify``: the notices of a job, of a workflow, and of a tenant for all its jobs and workflows that have none."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, Literal

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationInfo,
    model_serializer,
)

from jobs.core.errors import InvalidInput
from jobs.handlers import registry
from jobs.shapes.base import OneOf, Shape, T
from jobs.shapes.terms import Text, here
from jobs.store.events.notices import RUN_WORDS, SCHEDULE_WORDS, TENANT_RUN_WORDS, WORDS

#: The words that a job may ask for, a workflow, and a tenant for its jobs and workflows.
ON, RUN_ON = tuple(WORDS.values()), (*RUN_WORDS.values(), *SCHEDULE_WORDS.values())
TENANT_ON = (*ON, *TENANT_RUN_WORDS.values())


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


def _now(check: Callable[[str], str]) -> AfterValidator:
    """``check`` for values that a caller sends. A kept value passed it once (``Described.kept``)."""

    def validator(given: str, info: ValidationInfo) -> str:
        return given if info.context is None else check(given)

    return AfterValidator(validator)


def _some_of(words: tuple[str, ...]) -> Any:
    return Annotated[
        list[Literal[words]],  # type: ignore[valid-type]
        Field(min_length=1),
        AfterValidator(lambda given: [word for word in words if word in given]),
    ]


_Url = Annotated[str, Text(2048, pattern="^[Hh][Tt][Tt][Pp][Ss]?://"), _now(here(_check_url))]
_Email = Annotated[str, Text(254, format="email"), _now(_check_email)]


class _Notify(Shape):
    drops_null = True
    on: _some_of(ON)  # type: ignore[valid-type]
    """Outcomes that are notified. failed: an attempt failed and is tried again."""
    url: _Url | None = None
    """URL that receives a signed webhook."""
    email: _Email | None = None
    """Address for e-mail, if the installation sends any."""

    @model_serializer(mode="wrap")
    def _without_nulls(self, handler: SerializerFunctionWrapHandler) -> Any:
        return {name: value for name, value in handler(self).items() if value is not None}


class NotifyByWebhook(_Notify):
    hints = {"url": "Give a url, an email, or both."}
    url: _Url
    """URL that receives a signed webhook."""


class NotifyByEmail(_Notify):
    email: _Email
    """Address for e-mail, if the installation sends any."""


class RunNotifyByWebhook(NotifyByWebhook):
    on: _some_of(RUN_ON)  # type: ignore[valid-type]
    """Outcomes of runs that are notified. dead, skipped: a firing of the workflow's schedule began no run."""


class RunNotifyByEmail(NotifyByEmail):
    on: _some_of(RUN_ON)  # type: ignore[valid-type]
    """Outcomes of runs that are notified. dead, skipped: a firing of the workflow's schedule began no run."""


class TenantNotifyByWebhook(NotifyByWebhook):
    on: _some_of(TENANT_ON)  # type: ignore[valid-type]
    """Outcomes that are notified. failed: an attempt failed and is tried again. run_failed: a workflow run failed."""


class TenantNotifyByEmail(NotifyByEmail):
    on: _some_of(TENANT_ON)  # type: ignore[valid-type]
    """Outcomes that are notified. failed: an attempt failed and is tried again. run_failed: a workflow run failed."""


def _kind(document: Any) -> str:
    if isinstance(document, _Notify):  # asked as it is written out
        return "email" if document.url is None else "url"
    if not isinstance(document, Mapping):
        raise InvalidInput(
            {"": 'Must be an object such as {"on": ["dead"], "url": "https://ops.example/hook"}.'}
        )
    return "email" if "email" in document and "url" not in document else "url"


class _Either(OneOf[T], Generic[T]):
    """A url, an email, or both."""

    drops_null = True

    def stored(self) -> dict[str, Any]:
        """The value as it is kept and shown."""
        found: dict[str, Any] = self.model_dump()
        return found


def _either(by_webhook: type[_Notify], by_email: type[_Notify]) -> Any:
    kinds = Annotated[by_webhook, Tag("url")] | Annotated[by_email, Tag("email")]  # type: ignore[valid-type]
    return _Either[Annotated[kinds, Discriminator(_kind)]]


class Notify(_either(NotifyByWebhook, NotifyByEmail)):  # type: ignore[misc]
    """A url, an email, or both."""


class RunNotify(_either(RunNotifyByWebhook, RunNotifyByEmail)):  # type: ignore[misc]
    """A url, an email, or both."""


class TenantNotify(_either(TenantNotifyByWebhook, TenantNotifyByEmail)):  # type: ignore[misc]
    """A url, an email, or both."""
