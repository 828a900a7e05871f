"""Creation: jobs created over the API, one by one and by the thousand, beside django-celery-beat's own models.

Ours goes through the whole WSGI application (key, parsing, checks, quota, answer) in this process, without a network.
The peer's is plain ORM, with no API above it, in a process of its own. Both commit to the same durable Postgres.
"""

import json
import time
from typing import Any

from benchmarks.report import Report, Row
from benchmarks.stage import BenchError, Stage

JOBS = 10_000
#: Definitions in one call.
BULK = 1000
_PEER = "benchmarks.peers.schedulers.django_beat_entries"


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the number of jobs."""
    count = max(20, int(JOBS * scale))
    stage.empty()
    singly, together = _ours(stage, count)
    database = {"BENCH_DATABASE": stage.database("bench_entries")}
    printed = stage.run(
        f"django-celery-beat: {count:,} entries", ("-m", _PEER, str(count)), environment=database
    )
    theirs = json.loads(printed)
    return Report(
        name="creation",
        title=f"Creating {count:,} jobs",
        unit="per second, one by one",
        ours=singly,
        peer=theirs["create"],
        ratio=singly / theirs["create"],
        columns=("one by one", "in bulk"),
        rows=(
            Row("Carillon, over its API", (f"{singly:,.0f}", f"{together:,.0f}")),
            Row("django-celery-beat, ORM", (f"{theirs['create']:,.0f}", f"{theirs['bulk_create']:,.0f}")),
        ),
        more={
            "jobs": count,
            "bulk": round(together, 1),
            "peer_bulk": round(theirs["bulk_create"], 1),
            "ratio_bulk": round(together / theirs["bulk_create"], 3),
        },
    )


def _ours(stage: Stage, count: int) -> tuple[float, float]:
    """Jobs a second, one by one and in bulk."""
    post = _poster()
    stage.say(f"Carillon: {count:,} jobs one by one")
    began = time.perf_counter()
    for number in range(count):
        post("/jobs", _definition(f"one-{number}"), 201)
    singly = time.perf_counter()
    stage.say(f"Carillon: {count:,} jobs in bulk")
    for low in range(0, count, BULK):
        names = [f"bulk-{number}" for number in range(low, min(count, low + BULK))]
        answer = post("/jobs/bulk", {"jobs": [_definition(name) for name in names]}, 200)
        if answer["created"] != len(names):
            raise BenchError(f"of {len(names)} jobs {answer['created']} were created")
    return count / (singly - began), count / (time.perf_counter() - singly)


def _poster() -> Any:
    from django.test import Client

    from tenants.actions import create_api_key, create_tenant

    tenant = create_tenant(slug="creation")
    _, token = create_api_key(tenant=tenant, name="bench", scopes=["read", "write"])
    client = Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {token}"})

    def post(path: str, body: dict[str, Any], expected: int) -> Any:
        answer = client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")
        if answer.status_code != expected:
            raise BenchError(f"POST {path} was answered {answer.status_code}: {answer.content[:300]!r}")
        return answer.json()

    return post


def _definition(name: str) -> dict[str, Any]:
    return {"name": name, "job_type": "noop", "schedule": {"type": "interval", "every_seconds": 3600}}
