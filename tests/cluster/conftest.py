"""Fixtures of several cluster tests: a receiver, seeded chance, and servers of a file's own, which it may kill."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from scheduler_project.embedded import paths
from scheduler_project.embedded.postgres import EmbeddedPostgres
from scheduler_project.embedded.redis import EmbeddedRedis
from tests.cluster.receiver import Receiver
from tests.stack import POSTGRES


@pytest.fixture(autouse=True, scope="session")
def tables(django_db_setup: None) -> None:
    """Stages copy the tests' database, which this worker of xdist needs anyway for the files that come later."""


class Servers(NamedTuple):
    """Both servers and where they keep their data."""

    data_dir: Path
    postgres: EmbeddedPostgres
    redis: EmbeddedRedis

    def urls(self) -> dict[str, str]:
        """Arguments of a ``Stage`` that uses them."""
        return {
            "database_url": paths.embedded_database_url(self.data_dir),
            "redis_url": paths.embedded_redis_url(self.data_dir),
        }


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    data_dir = Path(tmp_path_factory.mktemp("servers"))
    paths.ensure_data_dir(data_dir)
    paths.reach_sockets(data_dir)
    postgres, redis = (kind(data_dir=data_dir, ephemeral=True) for kind in (POSTGRES, EmbeddedRedis))
    postgres.start()
    redis.start()
    yield Servers(data_dir, postgres, redis)
    redis.stop()
    postgres.stop()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def slow_receiver() -> Iterator[Receiver]:
    """Slow enough for a kill to find deliveries under way."""
    receiver = Receiver(hold_seconds=0.2)
    yield receiver
    receiver.close()


@pytest.fixture
def rng() -> random.Random:
    """Its seed is printed where a test fails; ``SEED`` repeats one."""
    seed = int(os.environ.get("SEED") or random.randrange(2**32))
    print(f"SEED={seed}")
    return random.Random(seed)
