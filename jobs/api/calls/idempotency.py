"""``Idempotency-Key``: a write that is sent twice is done once, and both get the first answer.

Every write of every ``Endpoint`` understands the header, also of a new one: ``Endpoint.initial`` puts ``once`` around
its handler. The handler's writes and the answer are one transaction. A crash before its commit leaves neither, so the
retry does the work. A crash after it leaves both, so the retry gets the answer. Keys are a tenant's own and last a day.
The size of one tenant's kept answers is bounded. A repetition that comes while the first request is at work is refused
with 409, and another request under the same key with 422. An answer 5xx is never kept, because it says nothing about
later answers.
"""

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import salted_hmac
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.renderers import FastJSONRenderer
from jobs.core.errors import InvalidInput
from jobs.store import answers, db

if TYPE_CHECKING:
    from jobs.api.views.base import Endpoint

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
#: Printable ASCII without blanks; may be quoted, as in the IETF's draft.
_KEY = re.compile(r'(?P<quote>"?)(?P<key>[!#-\[\]-~]{1,255})(?P=quote)')
#: The size of one answer, and of all a tenant's answers with 500 bytes beside each: a million of usual size a day.
MAX_ANSWER_BYTES = 1 << 20
MAX_KEPT_BYTES = 1 << 30
#: Headers of an answer that are repeated beside its body.
_HEADERS = ("Content-Type", "ETag", "Location", "Retry-After")


class KeyInUse(APIException):
    status_code = 409
    kind = "idempotency-key-in-use"
    default_detail = f"The first request with this {HEADER} is still running; repeat this one in a moment."
    wait = 1


class KeyReused(APIException):
    status_code = 422
    kind = "idempotency-key-reused"
    default_detail = (
        f"This {HEADER} was sent with another request; use a new one, or repeat that request unchanged."
    )


class AnswersFull(APIException):
    status_code = 429
    kind = "answers-full"
    wait = 3600

    def __init__(self, kept: int) -> None:
        super().__init__(
            f"The answers kept for your {HEADER}s take {kept:,} of {MAX_KEPT_BYTES:,} bytes, each for a day. Nothing "
            "was done: send the request without the header, or try again once the oldest answers have "
            "expired."
        )


class AnswerTooLong(APIException):
    status_code = 413
    kind = "answer-too-long"
    default_detail = (
        f"The answer is too long to be kept for its {HEADER}, so nothing was done: ask for less at once, or "
        "send the "
        "request without the header."
    )


def once(view: "Endpoint", handler: Callable[..., Any]) -> Callable[..., HttpResponseBase]:
    """``handler`` of ``view``, done once for each key, with its answer, in one transaction."""

    def keyed(request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        key, fingerprint = read_key(request), _fingerprint(request)
        tenant_id = view.owner_id
        with db.atomic():
            if not answers.take_key(tenant_id=tenant_id, key=key):
                raise KeyInUse
            kept = answers.find(tenant_id=tenant_id, key=key)
            if kept is not None:
                if bytes(kept.fingerprint) != fingerprint:
                    raise KeyReused
                return _answer(kept.status, kept.headers | {REPLAYED: "true"}, bytes(kept.body))
            if (kept_bytes := answers.kept_bytes(tenant_id=tenant_id)) > MAX_KEPT_BYTES:
                raise AnswersFull(kept_bytes)
            response = _attempt(view, handler, request, *args, **kwargs)
            if response.status_code >= 500:
                transaction.set_rollback(True)
                return response
            status, headers = response.status_code, _headers(response)
            hidden = view.shown_once if status < 300 else ()
            body = _rendered({**response.data, **dict.fromkeys(hidden)} if hidden else response.data)
            if len(body) > MAX_ANSWER_BYTES:
                raise AnswerTooLong
            answers.keep(
                tenant_id=tenant_id,
                key=key,
                fingerprint=fingerprint,
                status=status,
                headers=headers,
                body=body,
            )
            return _answer(status, headers, _rendered(response.data) if hidden else body)

    return keyed


def read_key(request: Request) -> str:
    """The key of a request that has one. Raises ``InvalidInput`` for a malformed one."""
    match = _KEY.fullmatch(request.headers[HEADER].strip())
    if match is None:
        raise InvalidInput({HEADER: 'Must be 1 to 255 printable ASCII characters without blanks, " or \\.'})
    return match["key"]


def _fingerprint(request: Request) -> bytes:
    """The fingerprint of a request; the order of a body's keys does not matter. Raises ``InvalidInput`` for no JSON.

    The hash is keyed, because a body may be as easy to guess as a secret that people chose.
    """
    body = json.dumps(request.data, sort_keys=True, separators=(",", ":"))
    conditions = [request.headers.get(name, "") for name in ("If-Match", "If-None-Match")]
    asked = (request.method, request.get_full_path(), *conditions, body)
    return salted_hmac("jobs.api.calls.idempotency", json.dumps(asked), algorithm="sha256").digest()


def _attempt(view: "Endpoint", handler: Callable[..., Any], *args: Any, **kwargs: Any) -> Response:
    """The handler's answer, or the problem it raised, with none of its writes; raises unforeseen errors."""
    try:
        with db.atomic():
            answer: Response = handler(*args, **kwargs)
            return answer
    except Exception as error:  # noqa: BLE001
        return view.handle_exception(error)


def _answer(status: int, headers: dict[str, str], body: bytes) -> HttpResponse:
    answer = HttpResponse(body, status=status, headers=headers)
    if not body:
        del answer["Content-Type"]
    return answer


def _headers(response: Response) -> dict[str, str]:
    given = {**response.headers, "Content-Type": response.content_type or "application/json"}
    return {name: given[name] for name in _HEADERS if name in given}


def _rendered(data: Any) -> bytes:
    return b"" if data is None else FastJSONRenderer().render(data)
