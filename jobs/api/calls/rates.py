"""How often a key may call: so many times a second, some more at once, counted in Redis by every web process together.

Each answer says how the caller stands, in the headers of draft-ietf-httpapi-ratelimit-headers; one too many is answered
429 with ``Retry-After``. A limit guards against accidents and must not be one: while Redis is away all is let through.
"""

import math
from typing import Any

from django.http import HttpResponseBase
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from jobs.conf import engine_settings
from jobs.limits import Bucket, Standing, shared_buckets
from tenants.models import ApiKey

_NOTED = "carillon_rate"


class KeyRate(BaseThrottle):
    """The limit of the request's key: its own, or that of the settings; 0 there means none."""

    def __init__(self) -> None:
        self._standing: Standing | None = None

    def allow_request(self, request: Request, view: Any) -> bool:
        bucket = bucket_of(request.auth) if isinstance(request.auth, ApiKey) else None
        self._standing = shared_buckets().count(bucket) if bucket else None
        if bucket is None or self._standing is None:
            return True
        setattr(request._request, _NOTED, (bucket, self._standing))
        return not self._standing.limited

    def wait(self) -> float | None:
        return max(1.0, self._standing.retry_after_seconds) if self._standing else None


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
    bucket, standing = noted
    window = max(1, math.ceil(bucket.burst / bucket.per_second))
    response.headers["RateLimit-Policy"] = f'"key";q={bucket.burst};w={window}'
    response.headers["RateLimit"] = (
        f'"key";r={standing.remaining};t={max(1, math.ceil(standing.reset_after_seconds))}'
    )
