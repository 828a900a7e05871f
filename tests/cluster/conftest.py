"""What several cluster tests share: a Postgres and a Redis of the test's own, which it may stop and kill."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from scheduler_project.embedded import paths
from scheduler_project.embedded.postgres import EmbeddedPostgres
from scheduler_project.embedded.redis import EmbeddedRedis


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


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    data_dir = Path(tmp_path_factory.mktemp("servers"))
    paths.ensure_data_dir(data_dir)
    paths.reach_sockets(data_dir)
    postgres, redis = (kind(data_dir=data_dir, ephemeral=True) for kind in (EmbeddedPostgres, EmbeddedRedis))
    postgres.start()
    redis.start()
    yield Servers(data_dir, postgres, redis)
    redis.stop()
    postgres.stop()
