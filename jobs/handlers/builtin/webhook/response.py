"""The meaning of a webhook's answer, or of the lack of one (DESIGN §7): success, retry, or bury."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

from jobs.core.errors import InvalidInput
from jobs.core.json_rules import check_json
from jobs.handlers.egress import AddressRefused, PortRefused
from jobs.handlers.outcome import (
    MAX_EXCERPT_BYTES,
    MAX_RESULT_BYTES,
    HandlerError,
    JsonValue,
    Permanent,
    Response,
    RetryAfter,
)
from jobs.handlers.shares.look_ups import LookUpStuck

#: 4xx answers that say "later" rather than "never".
RETRIED_STATUSES = frozenset({408, 409, 425, 429})
#: A longer ``Retry-After`` is read as this one; the job's policy bounds it further.
MAX_RETRY_AFTER = timedelta(days=7)


async def read_bounded(answer: aiohttp.ClientResponse, *, max_bytes: int) -> bytes:
    """The first ``max_bytes`` of the body. The connection of a longer body is closed and not kept alive."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            answer.close()
            break
    return bytes(body[:max_bytes])


def outcome_of(status: int, headers: Mapping[str, str], body: bytes) -> Response:
    """The success of a 2xx status. For any other status it raises the failure that the status means."""
    excerpt = body[:MAX_EXCERPT_BYTES].decode(errors="replace")
    if 200 <= status < 300:
        return Response(http_status=status, response_excerpt=excerpt)
    details: dict[str, Any] = {"code": f"http_{status}", "http_status": status, "response_excerpt": excerpt}
    if status in RETRIED_STATUSES or status >= 500:
        message = f"The target answered {status}."
        delay = retry_after(headers)
        if delay is not None:
            raise RetryAfter(
                delay, f"{message} It asked for a retry after {delay.total_seconds():g} s.", **details
            )
        raise HandlerError(message, **details)
    if status == 410:
        raise Permanent(
            "The target answered 410: it is gone for good, so the job is paused.", pause_job=True, **details
        )
    if 300 <= status < 400:
        details["code"] = "redirect"
        raise Permanent(
            f"The target answered {status}; redirects are not followed. Use the final URL.", **details
        )
    raise Permanent(f"The target answered {status}: it refuses this request.", **details)


def result_of(headers: Mapping[str, str], body: bytes) -> JsonValue:
    """The JSON of an answer; None where the answer is not JSON, or is larger than a result may be."""
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not (kind == "application/json" or kind.endswith("+json")) or len(body) > MAX_RESULT_BYTES:
        return None
    try:
        value: JsonValue = json.loads(body)
        check_json(value, field="result", max_bytes=MAX_RESULT_BYTES)
    except (ValueError, RecursionError, InvalidInput):
        return None
    return value


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """``Retry-After`` (RFC 9110 §10.2.3) in either form, at least zero; None when absent or unreadable.

    A date is read relative to the answer's own ``Date``, if there is one: the two clocks need not agree.
    """
    text = headers.get("Retry-After", "").strip()
    if re.fullmatch("[0-9]{1,10}", text):
        delay = timedelta(seconds=int(text))
    else:
        until = _http_date(text)
        if until is None:
            return None
        delay = until - (_http_date(headers.get("Date", "")) or datetime.now(UTC))
    return min(max(delay, timedelta()), MAX_RETRY_AFTER)


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn the client's errors into ours. All are retried except those that no retry can mend: refused address,
    bad URL.

    Raised ``from None``: the message says it all, and forty lines of the client's own frames would be kept
    per attempt.
    """
    try:
        yield
    except aiohttp.InvalidURL as error:
        # The error's text is the URL, which holds the secrets.
        raise Permanent(f"The URL cannot be used ({type(error).__name__}).", code="bad_url") from None
    except aiohttp.ClientConnectorDNSError as error:
        if isinstance(error.os_error, AddressRefused):
            raise _refused(error) from None
        if isinstance(error.os_error, LookUpStuck):
            raise HandlerError(
                f"The host's name cannot be resolved: {error.os_error}.", code="dns_timeout"
            ) from None
        raise HandlerError(f"The host's name cannot be resolved: {error}", code="dns") from None
    except (aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch) as error:
        raise HandlerError(f"No secure connection: {error}", code="tls") from None
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, AddressRefused):
            raise _refused(error) from None
        raise HandlerError(f"Cannot connect: {error}", code="connect") from None
    except TimeoutError as error:
        raise HandlerError(f"The connection could not be opened in time: {error}", code="timeout") from None
    except aiohttp.ClientResponseError as error:
        # Not the error's own text: it ends with the URL, as the client requoted it.
        raise HandlerError(f"The answer is not valid HTTP: {error.message}", code="bad_response") from None
    except aiohttp.ClientPayloadError as error:
        raise HandlerError(f"The answer is not valid HTTP: {error}", code="bad_response") from None
    except (aiohttp.ClientError, OSError) as error:
        raise HandlerError(f"The connection broke: {error!r}", code="disconnected") from None


def _refused(error: aiohttp.ClientConnectorError) -> Permanent:
    code = "port_refused" if isinstance(error.os_error, PortRefused) else "address_refused"
    return Permanent(f"Cannot connect to {error.host}: {error.os_error}.", code=code)
