"""The bodies the API takes: JSON that every reader would understand the same way, of bounded size.

A body is refused before any code looks at its content if it is too large (413), or if it has nesting that is too deep,
NaN, repeated keys, or numbers or texts that cannot be stored (400, by path where the fault can be placed). No body at
all counts as an empty object.
"""

import json
import re
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.parsers import BaseParser

from jobs.core.errors import InvalidInput
from jobs.core.json_rules import MAX_DEPTH, MAX_EXPLAINED, check_json, read_json, values_exceed
from jobs.handlers.outcome import MAX_RESULT_BYTES

#: Values of one body. A thread that makes a hundred thousand of them keeps all other threads of its process waiting.
MAX_VALUES = 75_000
#: How many bytes a body of one object may have beside its payload or result, and for these how many times their own
#: limit. That limit counts compact UTF-8. Indented, or with escaped letters, they take a few times as much.
BESIDE_PAYLOAD_BYTES, NOTATION = 65_536, 4
#: The name of the body itself among the fields of an error.
BODY = "body"
#: A whole string, a bracket, or the colon that makes the string before it a key.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}:]', re.DOTALL)


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The parsed body. Raises ``InvalidInput`` (field ``body``, or the path) and ``RequestDataTooBig``."""
        limit = most_bytes((parser_context or {}).get("view"))
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise RequestDataTooBig(f"The body is larger than {limit:,} bytes, the limit of this call.")
        if not raw.strip():
            return {}
        if values_exceed(raw, MAX_VALUES):
            raise RequestDataTooBig(f"The body has more than {MAX_VALUES:,} values; send less at once.")
        try:
            return read_json(raw)
        except InvalidInput as error:
            raise _placed(error, raw) from None


class MergePatchParser(StrictJSONParser):
    """RFC 7396 under its own media type."""

    media_type = "application/merge-patch+json"


def most_bytes(view: Any) -> int:
    """The limit of a body of ``view``, an ``Endpoint``. If that takes one payload at most: by the tenant's quota."""
    most = int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    tenant = getattr(view.request.auth, "tenant", None) if view is not None else None
    if tenant is None or view.takes_much:
        return most
    payload = max(tenant.max_payload_bytes, MAX_RESULT_BYTES)
    return min(most, NOTATION * payload + BESIDE_PAYLOAD_BYTES)


def _placed(error: InvalidInput, raw: bytes) -> InvalidInput:
    """The error under a field's name. A refusal of the strict reader has none: find it with a lenient reader.

    The error of a long text stays without a name: a caller with a thousand such texts must not get a second of
    processor for each.
    """
    if "" not in error.errors:
        return error
    if (key := _too_deep_under(raw[:MAX_EXPLAINED])) is not None:
        return error.under(key)
    if len(raw) > MAX_EXPLAINED:
        return error.under(BODY)
    try:
        check_json(json.loads(raw), field="")
    except InvalidInput as found:
        return found if "" not in found.errors else error.under(BODY)
    except ValueError:
        return error.under(BODY)
    return error.under(BODY)


def _too_deep_under(raw: bytes) -> str | None:
    """The top-level key under which ``raw`` nests too deep, ``BODY`` if there is none; None if it does not."""
    depth, string, key = 0, b"", None
    for match in _TOKEN.finditer(raw):
        token = match[0]
        if token == b":" and depth == 1:
            key = string.decode("utf-8", "replace").strip('"')
        elif token in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                return ascii(key).strip("'")[:40] if key else BODY
        elif token in (b"]", b"}"):
            depth -= 1
        else:
            string = token
    return None
