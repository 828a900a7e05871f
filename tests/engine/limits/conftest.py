"""Two processes that share rate limits, on a real Redis and over a link that may be slow."""

import random
from collections.abc import Iterator
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from django.conf import settings as django_settings
from redis import Redis

from chaos.stage.proxy import Proxies, Weather
from jobs.limits import Buckets


@pytest.fixture
def buckets() -> Buckets:
    return Buckets(url=django_settings.REDIS_URL)


@pytest.fixture
def another() -> Buckets:
    """The buckets of another process."""
    return Buckets(url=django_settings.REDIS_URL)


@pytest.fixture
def redis() -> Redis:
    return Redis.from_url(django_settings.REDIS_URL)


@pytest.fixture
def link() -> Iterator[SimpleNamespace]:
    """``url`` of Redis behind a link, and ``delay(seconds)``, which delays each round trip by that much."""
    parts = urlsplit(django_settings.REDIS_URL)
    address = parts.path if parts.scheme == "unix" else parts.port or 6379
    options = Redis.from_url(django_settings.REDIS_URL).connection_pool.connection_kwargs
    with Proxies(rng=random.Random(1)) as proxies:
        port = proxies.add("beat", "redis", address)
        yield SimpleNamespace(
            url=f"redis://127.0.0.1:{port}/{options.get('db', 0)}",
            delay=lambda seconds: proxies.set("beat", "redis", Weather(delay=seconds / 2)),
        )
