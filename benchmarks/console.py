"""Console: each page as a superuser opens it, over a small installation and over millions of jobs and triggers.

The peer is the console itself with little to show. Pages are requested in this process, so the time of a page is the
server's alone: views, templates and queries. It is the median of a few requests, after one that warms up. Lists are
opened with each tab or filter that they link to, charts and tenants over tallies of 90 days. Due triggers stay due:
nothing serves them.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Any

from psycopg import sql

from benchmarks import carillon
from benchmarks.carillon.rows import grow
from benchmarks.history import write_history
from benchmarks.report import Report, Row
from benchmarks.stage import BenchError, Stage

JOBS, TRIGGERS = (1_000, 5_000_000), (1_000, 10_000_000)
TENANTS, TYPES = 100, 5
#: Due triggers of the tenant whose page is opened; nothing serves them.
BACKLOG = 100_000
DAYS, RECENT_HOURS = 90, 26
ONE_IN_DEAD = 500
ROUNDS = 5
MOST_MS, MOST_QUERIES = 150, 25
#: The scrape by Prometheus, which reads the same tables.
SCRAPE = "scrape of /metrics"
EVERY, FIRST_IN = timedelta(days=365), timedelta(hours=2)
#: Links of a list to itself: its tabs and filters.
_OWN_LINK = re.compile(r'href="(\?[^"#]+)"')
MAX_LINKS = 30
#: Answers of pages that only take a form, or that show nothing without parameters.
ASKS_FOR_MORE = (404, 405)
_DEAD = """
    UPDATE jobs_trigger SET state = 'dead', reason = 'exhausted' WHERE get_byte(uuid_send(id), 15) < 1
"""


@dataclass(frozen=True)
class Asked:
    """The cost of one page: the median of its server time, and its number of queries."""

    ms: float
    queries: int


def measure(stage: Stage, *, scale: float) -> Report:
    """Run the bench; ``scale`` shrinks jobs, triggers and tallies."""
    found: list[dict[str, Asked]] = []
    sizes = [
        (max(200, int(jobs * scale)), max(200, int(count * scale)))
        for jobs, count in zip(JOBS, TRIGGERS, strict=True)
    ]
    for jobs, triggers in sizes:
        _fill(stage, jobs, triggers, backlog=max(100, int(BACKLOG * scale)))
        found.append(dict(_ask_all(stage, what=f"{jobs:,} jobs")))
    small, large = found
    slow = {
        page: asked for page, asked in large.items() if asked.ms > MOST_MS or asked.queries > MOST_QUERIES
    }
    worst = max(large, key=lambda page: large[page].ms)
    ours, peer = large[worst].ms, small.get(worst, large[worst]).ms
    return Report(
        name="console",
        title=f"Server time of the console's pages, {sizes[1][0]:,} jobs and {sizes[1][1]:,} triggers",
        unit=f"ms of the slowest page ({worst}); peer: with {sizes[0][0]:,} jobs",
        ours=ours,
        peer=peer,
        ratio=peer / ours,
        columns=("ms, small", "ms, large", "queries"),
        rows=tuple(
            Row(
                page,
                (f"{small[page].ms:.0f}" if page in small else "-", f"{asked.ms:.0f}", str(asked.queries)),
            )
            for page, asked in sorted(large.items(), key=lambda item: -item[1].ms)
        ),
        more={
            "pages": len(large),
            "median_ms": round(median(asked.ms for asked in large.values()), 1),
            "scrape_ms": round(large[SCRAPE].ms, 1),
            "beyond_limits": {page: [round(asked.ms), asked.queries] for page, asked in slow.items()},
        },
    )


def _fill(stage: Stage, jobs: int, triggers: int, *, backlog: int) -> None:
    from jobs.models import Queue
    from tenants.models import Tenant

    stage.empty()
    carillon.make_tenant(carillon.TENANT)
    for number in range(1, TENANTS):
        carillon.make_tenant(f"tenant-{number}")
    first = Tenant.objects.order_by("id").values_list("id", flat=True)[0]
    whose = sql.SQL("{} + n % {}").format(first, TENANTS)
    carillon.add_fleet(stage, jobs, every=EVERY, first_in=FIRST_IN, tenant_id=whose)
    write_history(stage, triggers, skip=0)
    stage.say("dead letters")
    stage.db.execute(_DEAD)
    carillon.add_due_triggers(stage, backlog, tenant=carillon.TENANT)
    opened = {"window": 100, "measured_at": stage.value("SELECT clock_timestamp()")}
    Queue.objects.get_or_create(job_type="noop", defaults=opened)
    _write_tallies(stage, first)
    stage.say("analyzing")
    stage.settle()


def _write_tallies(stage: Stage, first_tenant: int) -> None:
    """Write tallies as they are after 90 days: hours of each tenant and type, and the minutes kept beside them."""
    from jobs.models.tally import ActivityHour, ActivityMinute

    pairs = TENANTS * TYPES
    now = stage.value("SELECT clock_timestamp()")
    shared: dict[str, Any] = {
        "tenant_id": sql.SQL("{} + n % {}").format(first_tenant, TENANTS),
        "job_type": sql.SQL("'type-' || n / {} % {}").format(TENANTS, TYPES),
        "created": 100,
        "started": 100,
        "ended_succeeded": 97,
        "ended_failed": 3,
        "retried": 2,
        "buried_exhausted": 1,
    }
    for model, column, number, unit in (
        (ActivityHour, "hour", DAYS * 24, "hour"),
        (ActivityMinute, "minute", RECENT_HOURS * 60, "minute"),
    ):
        at = sql.SQL("date_trunc({}, {}::timestamptz, 'UTC') - (n / {}) * {}::interval").format(
            unit, now, pairs, f"1 {unit}"
        )
        grow(stage, model, pairs * number, what=f"tallies by the {unit}", **{column: at}, **shared)


def _ask_all(stage: Stage, *, what: str) -> Iterator[tuple[str, Asked]]:
    """Each page's address, without ids, and its cost."""
    from django.contrib.auth.models import User
    from django.test import Client
    from django.test.utils import setup_test_environment, teardown_test_environment

    from jobs.api.metrics import exposition

    setup_test_environment(debug=False)
    try:
        client = Client()
        user, _ = User.objects.get_or_create(username="bench", is_superuser=True, is_staff=True)
        client.force_login(user)
        yield SCRAPE, _time(exposition)
        for name, address in _addresses():
            stage.say(f"{what}: {name}")
            if client.get(address).status_code in ASKS_FOR_MORE:
                continue
            yield name, ask(client, address)
            for link in _links(client, address):
                yield f"{name} {link}", ask(client, address + link)
    finally:
        teardown_test_environment()


def _addresses() -> Iterator[tuple[str, str]]:
    """Lists, the page of a row of each, and the console's own pages."""
    from django.contrib import admin
    from django.contrib.admin.utils import quote
    from django.urls import reverse

    from jobs.admin.urls import urlpatterns

    yield "overview", reverse("admin:index")
    for pattern in urlpatterns:
        if pattern.name and not pattern.pattern.converters:
            yield pattern.name, reverse(pattern.name)
    for model in admin.site._registry:
        label, name = model._meta.app_label, model._meta.model_name
        yield f"list of {model._meta.verbose_name_plural}", reverse(f"admin:{label}_{name}_changelist")
        row = model._default_manager.order_by("-pk").values_list("pk", flat=True).first()
        if row is not None:
            yield str(model._meta.verbose_name), reverse(f"admin:{label}_{name}_change", args=[quote(row)])


def _links(client: Any, address: str) -> list[str]:
    """The page's links to itself: its tabs and filters."""
    page = client.get(address).content.decode().replace("&amp;", "&")
    return sorted(set(_OWN_LINK.findall(page)))[:MAX_LINKS]


def ask(client: Any, address: str, **headers: str) -> Asked:
    """The cost of getting a page; ``headers`` are those of a call of the API."""

    def get() -> None:
        answer = client.get(address, follow=True, headers=headers)
        if answer.status_code not in (200, 403):
            raise BenchError(f"{address} answered {answer.status_code}")

    return _time(get)


def _time(action: Callable[[], object]) -> Asked:
    """The cost of an action: the median of a few calls, after one that warms up."""
    from django.db import connection

    def once() -> float:
        began = time.perf_counter()
        action()
        return (time.perf_counter() - began) * 1000

    statements: list[str] = []

    def count(execute: Any, statement: str, *rest: Any) -> Any:
        statements.append(statement)
        return execute(statement, *rest)

    with connection.execute_wrapper(count):
        once()
    return Asked(median(once() for _ in range(ROUNDS)), len(statements))
