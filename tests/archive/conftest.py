"""Places for archives: a directory, and a bucket of a real S3 server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from django.db import connection
from moto.server import ThreadedMotoServer

from jobs.models import Attempt
from jobs.store import partitions
from tests import factories
from tests.factories import make_attempt, make_job, make_trigger

RETENTION = 90 * 24 * factories.HOUR
WEEK = 7 * 24 * factories.HOUR


@pytest.fixture(scope="session")
def bucket_of() -> Iterator[Callable[[], str]]:
    """Yields a function that makes a bucket on the server that the environment names, and returns its URL."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patched.setenv("AWS_ACCESS_KEY_ID", "key")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patched.setenv("AWS_DEFAULT_REGION", "us-east-1")

        def make() -> str:
            name = f"carillon-{uuid4().hex}"
            boto3.client("s3").create_bucket(Bucket=name)
            return f"s3://{name}/history"

        yield make
    server.stop()


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/archive"
    return str(request.getfixturevalue("bucket_of")())


@pytest.fixture
def past(clock: Callable[..., None]) -> str:
    """The name of a partition of attempts that is past retention. It has 1,203 rows, more than a page."""
    job = make_job()
    trigger = make_trigger(job, "succeeded")
    attempt = make_attempt(trigger, "failed", error_message='lines\nand "quotes", \\ and ☃', number=1)
    name = partition_of(attempt)
    add_rows(1202)
    clock(RETENTION + WEEK)
    for table in partitions.ALL:
        partitions.ensure(table)
    return name


def add_rows(number: int, *, row_id: str = "gen_random_uuid()") -> None:
    """Add more attempts beside the first."""
    columns = "number, fence, worker, state, error_message, trigger_id, job_id, tenant_id"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO jobs_attempt (id, started_at, {columns})"
            f" SELECT {row_id}, started_at + n * interval '1 microsecond', {columns}"
            " FROM (SELECT * FROM jobs_attempt ORDER BY started_at LIMIT 1) first, generate_series(1, %s) n",
            [number],
        )


def partition_of(attempt: Attempt) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM jobs_attempt WHERE id = %s", [attempt.id])
        return str(cursor.fetchone()[0])
