"""Requests are counted and timed by their route. A caller cannot invent a route."""

from collections.abc import Iterator

import pytest
from django.test import Client

from jobs.activity import own
from tests.factories import make_job

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def counted_by_this_test() -> Iterator[None]:
    own.forget()
    yield
    own.forget()


def counted() -> dict[tuple[str, ...], int]:
    """The number of requests by method, route and status."""
    return {
        labels: counts["times"] for (name, labels), counts in own.take().items() if name == "http_requests"
    }


def test_by_method_route_and_status(client: Client) -> None:
    job = make_job()
    for _ in range(2):
        client.get(f"/api/v1/jobs/{job.id}")
    client.post("/api/v1/jobs")
    client.get("/livez")
    assert counted() == {
        ("GET", "/api/v1/jobs/<uuid:job_id>", "401"): 2,
        ("POST", "/api/v1/jobs", "401"): 1,
        ("GET", "/livez", "200"): 1,
    }


def test_with_the_time_of_each(client: Client) -> None:
    client.get("/livez")
    [times] = [counts for (name, labels), counts in own.take().items() if name == "http_request_seconds"]
    assert times.pop("us") >= 0
    assert sum(times.values()) == 1


def test_without_a_series_for_what_callers_invent(client: Client) -> None:
    for path in (
        "/nowhere",
        "/api/v1/nowhere/at/all",
        "/apix",
        "/admin/login/?next=/x",
        "/admin/no/such/page/",
    ):
        client.get(path)
    client.generic("BREW", "/livez")
    routes = {(method, route) for method, route, _ in counted()}
    assert routes == {("GET", "unmatched"), ("GET", "/admin/"), ("other", "/livez")}
