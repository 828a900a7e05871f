"""Creation: jobs created over HTTP against gunicorn, beside services that do less, served alike in the same run.

Carillon is started as README says; the peers run in gunicorn's own worker, with as many processes and threads. All
commit to the same durable Postgres. One client calls without a pause, then ``CLIENTS`` do; the contestants take turns.
Then the bench measures bulks, a page of the list, and immediate webhooks at a fixed rate, from the call to their
arrival.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks import carillon
from benchmarks.peers.http import receiver
from benchmarks.peers.http.loop import Plan, Times
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import Stage
from benchmarks.webhook import ALLOWED

ROUNDS, SMALL = 3, 0.2
ALONE, TOGETHER, CLIENTS = 1_000, 3_000, 32
#: Calls, and definitions in each.
BULKS, BULK = 20, 1_000
PAGES = 300
IMMEDIATE, PER_SECOND = 1_000, 100
VIEWS = "benchmarks.peers.http.views"
INSERT, ENTRIES, TASK = "bare view, one INSERT", "DRF, PeriodicTask", "bare view, apply_async"


@dataclass
class Contestant:
    """A service that creates the object that ``body`` describes, and its measured figures."""

    name: str
    url: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    p50s: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def call(self, stage: Stage, calls: int, clients: int, round_: int) -> Times:
        body = json.dumps({**self.body, "name": f"{round_}-{clients}-{{n}}"})
        plan = Plan(self.url, calls, clients, body=body, headers=self.headers)
        return carry_out(stage, f"{self.name}: {calls:,} calls of {clients}", plan)

    def row(self) -> Row:
        return Row(self.name, (f"{median(self.p50s):.1f}", f"{median(self.rates):,.0f}"))


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks the counts."""
    stage.empty()
    carillon.make_tenant(carillon.TENANT)
    headers = key()
    with _carillon(stage) as ours, _peers(stage) as (peers, interval):
        body = {"job_type": "noop", "schedule": {"type": "interval", "every_seconds": 3600}}
        entry = {"task": "stamp", "interval": interval}
        contestants = [
            Contestant("Carillon", f"{ours}api/v1/jobs", body, headers),
            Contestant(INSERT, f"{peers}insert", body),
            Contestant(ENTRIES, f"{peers}entries", entry),
            Contestant(TASK, f"{peers}task", body),
        ]
        for number in range(ROUNDS if scale >= SMALL else 1):
            for one in contestants:
                one.p50s.append(percentile(one.call(stage, _some(ALONE, scale), 1, number).ms, 0.5))
            for one in contestants:
                count = _some(TOGETHER, scale)
                one.rates.append(count / one.call(stage, count, CLIENTS, number).seconds)
        bulk = _bulk(stage, f"{ours}api/v1/jobs/bulk", body, headers, scale)
        peer_bulk = _bulk(stage, f"{peers}entries/bulk", entry, {}, scale)
        plan = Plan(
            f"{ours}api/v1/jobs?page_size=50", _some(PAGES, scale), 1, body="", method="GET", headers=headers
        )
        page_ms = percentile(carry_out(stage, "Carillon: pages of 50 jobs", plan).ms, 0.5)
    waits = _immediate(stage, scale)
    first, second = contestants[:2]
    return Report(
        name="creation",
        title="Creating jobs over HTTP",
        unit=f"per second, {CLIENTS} clients",
        ours=median(first.rates),
        peer=median(second.rates),
        ratio=median(first.rates) / median(second.rates),
        columns=("one client p50 ms", f"{CLIENTS} clients /s"),
        rows=tuple(one.row() for one in contestants),
        more={
            "p50_ms": {one.name: round(median(one.p50s), 2) for one in contestants},
            "rates": {one.name: [round(rate) for rate in one.rates] for one in contestants},
            "bulk": round(bulk),
            "peer_bulk": round(peer_bulk),
            "page_p50_ms": round(page_ms, 2),
            "immediate_p50_ms": round(percentile(waits, 0.5), 1),
            "immediate_p99_ms": round(percentile(waits, 0.99), 1),
        },
    )


def carry_out(stage: Stage, what: str, plan: Plan) -> Times:
    """Make the calls of ``plan`` from a process of its own."""
    return Times.printed(stage.run(what, plan.argv()))


def _some(count: int, scale: float) -> int:
    return max(20, int(count * scale))


def key() -> dict[str, str]:
    """Headers with a key of the tenant ``bench`` whose rate is out of reach."""
    from tenants.actions import create_api_key
    from tenants.models import Tenant

    tenant = Tenant.objects.get(slug=carillon.TENANT)
    _, token = create_api_key(
        tenant=tenant, name="bench", scopes=["read", "write"], rate_per_second=1_000_000
    )
    return {"Authorization": f"Bearer {token}"}


def _carillon(stage: Stage) -> AbstractContextManager[str]:
    return stage.server(
        "gunicorn", lambda port: _gunicorn(port, "scheduler_project.wsgi:application"), environment=ALLOWED
    )


@contextmanager
def _peers(stage: Stage) -> Iterator[tuple[str, int]]:
    """The peers' URL, and the id of the interval of their entries."""
    environment = {"BENCH_DATABASE": stage.database("bench_creation"), "BENCH_BROKER": stage.broker_url}
    interval = int(stage.run("peers: making tables", ("-m", VIEWS), environment=environment))
    argv = "--worker-class", "gthread", f"{VIEWS}:application"
    with stage.server("peers", lambda port: _gunicorn(port, *argv), environment=environment) as url:
        yield url, interval


def _gunicorn(port: int, *argv: str) -> tuple[str, ...]:
    """Processes and threads as ``gunicorn.conf.py`` has them."""
    return "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", *argv


def _bulk(stage: Stage, url: str, body: Mapping[str, Any], headers: Mapping[str, str], scale: float) -> float:
    """Definitions a second."""
    each = _some(BULK, scale)
    jobs = [{**body, "name": f"bulk-{{n}}-{number}"} for number in range(each)]
    plan = Plan(url, BULKS, 1, body=json.dumps({"jobs": jobs}), headers=headers, warm_up=2)
    return BULKS * each / carry_out(stage, f"{url}: {BULKS} bulks of {each:,}", plan).seconds


def _immediate(stage: Stage, scale: float) -> list[float]:
    """Milliseconds from each call to its webhook's arrival."""
    calls = _some(IMMEDIATE, scale)
    with (
        stage.server("receiver", receiver.argv) as target,
        carillon.running(stage, environment=ALLOWED),
        _carillon(stage) as ours,
    ):
        body = {
            "job_type": "webhook",
            "schedule": {"type": "immediate"},
            "payload": {"url": f"{target}?asked_at={{now}}"},
        }
        plan = Plan(
            f"{ours}api/v1/jobs",
            calls,
            CLIENTS,
            body=json.dumps(body),
            headers=key(),
            per_second=PER_SECOND,
        )
        carry_out(stage, f"Carillon: {calls:,} immediate webhooks", plan)
        expected = calls + plan.warm_up
        stage.must("Carillon: the last webhooks", lambda: len(receiver.told(f"{target}waits")) >= expected)
        waits: list[float] = receiver.told(f"{target}waits")[plan.warm_up :]
        return waits
