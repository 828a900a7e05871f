"""How often a key may call: a number of calls a second and a burst, counted by all web processes together.

A call costs one token, or as many as ``costs`` says: a bulk as much as its jobs one by one, a long body by its bytes,
which are paid for before they are read. A call that costs more than the burst waits for a full bucket. The missing
tokens are saved afterwards, as far as the debt is remembered. Each answer says how the caller stands, in the headers of
draft-ietf-httpapi-ratelimit-headers. A call too many gets 429 with ``Retry-After``. While more than half of the burst
is left, a process may tell the others of a call up to 20 ms later; after that every call asks first. No call waits for
an answer longer than 100 ms in all. While Redis is slow or away, each process counts by itself.
"""

import math
from typing import Any

from django.http import HttpResponseBase
from rest_framework.exceptions import APIException, ErrorDetail, Throttled
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from jobs.api.calls.costs import Cost, cost_of, cost_of_body
from jobs.conf import engine_settings
from jobs.limits import DEBT_SECONDS, Bucket, RateStatus, shared_buckets
from tenants.models import ApiKey

_NOTED = "carillon_rate"


class TooCostly(Throttled):
    """The key has tokens left, but fewer than this request costs. Nothing was done."""

    kind = "too-many-requests"

    def __init__(self, cost: Cost, status: RateStatus, wait: float) -> None:
        super().__init__(wait=wait)
        self.detail = ErrorDetail(
            f"This request costs {cost.tokens:,} tokens of the key's rate, and {status.remaining:,} are "
            "left. Try "
            f"again in {math.ceil(wait)} seconds{', or send less at once' if cost.each else ''}."
        )


class NeverAffordable(APIException):
    """The request costs more than the key can ever have. Nothing was done."""

    status_code = 413
    kind = "too-costly"

    def __init__(self, cost: Cost, most: int) -> None:
        super().__init__(
            f"This request costs {cost.tokens:,} tokens of the key's rate, one for each {cost.each}; the "
            "key has "
            f"at most {most:,} at once. Send at most that many."
        )


class KeyRate(BaseThrottle):
    """The limit of the request's key: its own, or that of the settings; 0 there means none."""

    def __init__(self) -> None:
        self._status: RateStatus | None = None

    def allow_request(self, request: Request, view: Any) -> bool:
        bucket = bucket_of(request.auth) if isinstance(request.auth, ApiKey) else None
        self._status = shared_buckets().take(bucket) if bucket else None
        if bucket is None or self._status is None:
            return True
        setattr(request._request, _NOTED, (bucket, self._status, 1))
        if self._status.granted:
            self._weigh(request, bucket, self._status)
        return self._status.granted > 0

    def _weigh(self, request: Request, bucket: Bucket, status: RateStatus) -> None:
        """Take what the request costs beyond its first token. Raises ``TooCostly``."""
        match = request._request.resolver_match
        of_body = cost_of_body(_length(request))
        self._affordable(of_body, request, bucket, status)
        of_call = cost_of(
            match.url_name if match else None,
            str(request.method),
            body=lambda: request.data,
            query=request.query_params,
        )
        tokens = self._affordable(max(of_body, of_call), request, bucket, status)
        if tokens > 1:
            shared_buckets().spend({bucket: tokens - 1})
            left = status._replace(
                remaining=max(0, status.remaining - tokens + 1),
                reset_after_seconds=status.reset_after_seconds + (tokens - 1) * bucket.interval,
            )
            setattr(request._request, _NOTED, (bucket, left, tokens))

    @staticmethod
    def _affordable(cost: Cost, request: Request, bucket: Bucket, status: RateStatus) -> int:
        """The tokens to take for ``cost``, of which one is taken already. Raises ``TooCostly``, ``NeverAffordable``."""
        payable = bucket.burst + int(DEBT_SECONDS * bucket.per_second)
        if cost.tokens > payable and cost.each:
            raise NeverAffordable(cost, payable)
        tokens = min(cost.tokens, payable)
        missing = min(tokens, bucket.burst) - 1 - status.remaining
        if missing > 0:
            setattr(request._request, _NOTED, (bucket, status, tokens))
            raise TooCostly(cost, status, max(1.0, missing * bucket.interval))
        return tokens

    def wait(self) -> float | None:
        return max(1.0, self._status.retry_after_seconds) if self._status else None


def _length(request: Request) -> int:
    """The bytes of the body, as announced: no more bytes are read."""
    announced = request.META.get("CONTENT_LENGTH") or ""
    return int(announced) if announced.isascii() and announced.isdigit() else 0


def bucket_of(key: ApiKey) -> Bucket | None:
    """The limit of one key; None when it has none."""
    engine = engine_settings()
    if key.rate_per_second:
        return Bucket(f"key:{key.prefix}", key.rate_per_second, key.rate_per_second)
    rate = engine.api_rate_per_second
    return Bucket(f"key:{key.prefix}", rate, engine.api_rate_burst) if rate else None


def note(request: Request, response: HttpResponseBase) -> None:
    """Tell the caller how it stands."""
    noted = getattr(request._request, _NOTED, None)
    if noted is None:
        return
    bucket, status, cost = noted
    window = max(1, math.ceil(bucket.burst / bucket.per_second))
    response.headers["RateLimit-Policy"] = f'"key";q={bucket.burst};w={window}'
    response.headers["RateLimit"] = (
        f'"key";r={status.remaining};t={max(1, math.ceil(status.reset_after_seconds))}'
    )
    if cost > 1:
        response.headers["RateLimit-Cost"] = str(cost)
