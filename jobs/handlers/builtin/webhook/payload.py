"""The payload of a webhook job: the request that a caller may ask Carillon to send."""

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from yarl import URL

from jobs.handlers.builtin.payload import BuiltInPayload
from jobs.handlers.outcome import Permanent
from jobs.handlers.placeholders import check_placeholders, fill, names_in

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110 §5.6.2
_PRINTABLE = re.compile(r"[\x20-\x7e]{0,4096}")
#: Headers that frame the message or speak for Carillon, in lower case.
_DENIED = {
    "host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer",
    "expect", "idempotency-key", "x-fence-token", "x-execution-id",
}  # fmt: skip
_AUTHORITY_ENDS = re.compile(r"[/?#]")
_AUTHORITY = re.compile(r"(?:\[(?P<literal>[^\]]*)\]|[^:\[\]]+)(?::[0-9]*)?")
_MAX_FILLED_URL_LENGTH = 8192
_DENIED_PREFIXES = ("proxy-", "webhook-", "x-carillon-")


#: The checks of so many URLs are kept, so that they are not repeated for each trigger.
_URLS_KEPT = 1024


def _checked_url(text: str) -> str:
    """The URL as given, once the parser that will send it (yarl) finds nothing odd in it."""
    authority = check_placeholders(text).partition("://")[2].partition("/")[0].partition("?")[0]
    if names_in(text.partition("://")[0]) or names_in(authority):
        raise ValueError("A secret may stand in the path or the query; the host must be known beforehand.")
    if re.search(r"[\s\\\x00-\x1f\x7f]", text):
        raise ValueError("A URL cannot have spaces, control characters or backslashes; percent-encode them.")
    try:
        url = URL(text)
    except ValueError as error:
        raise ValueError(f"This is not a URL: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(
            "Give an absolute URL such as https://example.com/hook; only http and https are sent."
        )
    if "@" in text.split("://", 1)[1].split("/", 1)[0].split("?", 1)[0].split("#", 1)[0]:
        raise ValueError("A user name or password in the URL is not sent; use an Authorization header.")
    if url.port == 0:
        raise ValueError("The port must be from 1 to 65535.")
    _check_authority(_AUTHORITY_ENDS.split(text.partition("://")[2], maxsplit=1)[0])
    return text


def _check_authority(authority: str) -> None:
    """Refuse an authority that yarl accepts but reads as something else, or cannot connect to."""
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise ValueError("Give the host as a name or an address, and the port in digits from 0 to 9.")
    if parts["literal"] is not None:
        try:
            IPv6Address(parts["literal"])
        except ValueError:
            raise ValueError(
                "An address in brackets must be an IPv6 address, such as [2001:db8::1]."
            ) from None


#: For URLs as jobs have them. A URL with its secrets filled in must not be kept.
_check_url = lru_cache(_URLS_KEPT)(_checked_url)


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        if not _TOKEN.fullmatch(name):
            raise ValueError(
                f"{name!r:.80} is not a header name; use letters, digits and - (RFC 9110 token)."
            )
        if lower in _DENIED or lower.startswith(_DENIED_PREFIXES):
            raise ValueError(f"{name} is set by Carillon or by the connection itself; leave it out.")
        if lower in seen:
            raise ValueError(f"{name} is given twice; header names do not differ by case.")
        if not _PRINTABLE.fullmatch(value):
            raise ValueError(f"The value of {name} must be printable ASCII of at most 4096 characters.")
        check_placeholders(value)
        seen.add(lower)
    return headers


class WebhookPayload(BuiltInPayload):
    """One HTTP request. ``body`` is sent as JSON; if it is left out, the request has no body."""

    url: Annotated[str, Field(min_length=1, max_length=2048), AfterValidator(_check_url)]
    method: Literal["POST", "GET", "PUT", "PATCH", "DELETE"] = "POST"
    headers: Annotated[dict[str, str], Field(max_length=32), AfterValidator(_check_headers)] = {}
    body: Any = None

    def filled(self, value_of: Callable[[str], str]) -> "WebhookPayload":
        """The request with its secrets in place, checked again as it will be sent.

        Raises ``Permanent`` (``secret_unfit``) where a value makes it a request that may not be sent. Also raises the
        errors of ``value_of``.
        """
        if "{{" not in self.url and not any("{{" in value for value in self.headers.values()):
            return self
        url = fill(self.url, value_of)
        headers = {name: fill(value, value_of) for name, value in self.headers.items()}
        try:
            _checked_url(url)
            _check_headers(headers)
            same = URL(url).origin() == URL(self.url).origin()
        except ValueError:
            same = False
        if not same or len(url) > _MAX_FILLED_URL_LENGTH:
            raise Permanent(
                "With its secrets in place this is no request that may be sent: look for line breaks, blanks, "
                "characters beyond ASCII, or what changes the URL's host.",
                code="secret_unfit",
            ) from None
        return self.model_copy(update={"url": url, "headers": headers})


def secrets(payload: dict[str, Any]) -> dict[str, list[str]]:
    """The secrets that a valid payload refers to, by field."""
    found = {"payload.url": names_in(payload["url"])}
    for name, value in payload.get("headers", {}).items():
        found[f"payload.headers.{name}"] = names_in(value)
    return {field: names for field, names in found.items() if names}


def target(payload: dict[str, Any]) -> str:
    """The host that a valid payload's request goes to, in lower case; with the port if it is not the scheme's own."""
    return target_of(payload["url"])


def target_of(text: str) -> str:
    """The same for a valid URL."""
    url = URL(text)
    host = (url.host or "").lower()
    return (host if url.is_default_port() else f"{host}:{url.port}")[:255]
