"""Buckets that are counted in Redis, by Redis' clock: one pipeline per exchange."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from jobs.limits.exchange import DEBT_SECONDS, TIMEOUT_SECONDS, Answer, Line

#: The prefix of the buckets' names in Redis. No queue's name may begin with a brace, even if granted
#: (``builtin.queues``), so no message can be put in a bucket's place.
PREFIX = "{carillon}:rate:"
#: Buckets that one call of the script looks at: some 2 ms of Redis.
_SLICE = 500
_SCRIPT = Path(__file__).with_name("exchange.lua").read_text()


class RedisWire:
    """The connection. It is made at first use. ``ValueError``: the URL names no Redis."""

    failures: tuple[type[Exception], ...] = (RedisError, OSError, ValueError)

    def __init__(self, url: str) -> None:
        self._url = url
        self._redis: Redis | None = None

    def call(self, lines: Sequence[Line]) -> list[Answer]:
        if self._redis is None:
            self._redis = self._client(TIMEOUT_SECONDS)
        pipeline = self._redis.pipeline(transaction=False)
        for start in range(0, len(lines), _SLICE):
            some = lines[start : start + _SLICE]
            keys = [PREFIX + line.account.bucket.key for line in some]
            values = [value for line in some for value in line.values]
            pipeline.eval(_SCRIPT, len(keys), *keys, DEBT_SECONDS, *values)
        flat = [value for answer in pipeline.execute() for value in answer]
        return [
            Answer(int(held), float(full_in), bool(strange))
            for held, full_in, strange in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        ]

    def refused(self, failure: Exception) -> bool:
        """Redis refuses when it is out of memory, read-only, or gives no right to the script."""
        return isinstance(failure, ResponseError)

    def rest(self) -> None:
        """The connection is kept."""

    def failure(self, *, patience_seconds: float) -> Exception | None:
        try:
            with self._client(patience_seconds) as redis:
                redis.ping()
        except self.failures as error:
            return error
        return None

    def _client(self, patience_seconds: float) -> Redis:
        options: dict[str, Any] = {
            "socket_timeout": patience_seconds,
            "socket_connect_timeout": patience_seconds,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,
        }
        return Redis.from_url(self._url, **options)
