"""Shares: no tenant may take all of a scarce resource. Each attack is tried against an open door, too."""

import socket
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest

from jobs.conf import EngineSettings, engine_settings
from jobs.models import Job
from tests.engine.conftest import Perform, queued
from tests.factories import attempts, make_tenant
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job

Configure = Callable[..., EngineSettings]
LOOPBACK = (ip_network("127.0.0.0/8"),)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def configure(settings: Any) -> Configure:
    """Set settings of the engine for this test."""

    def configure(**changes: Any) -> EngineSettings:
        settings.CARILLON = engine_settings().model_copy(update=changes)
        return settings.CARILLON

    return configure


@pytest.fixture
def hostile(transactional_db: None, job_types: None) -> Caller:
    return Caller(make_tenant(), scopes=("read", "write", "worker"))


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The URL of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def webhook_job(**changes: Any) -> dict[str, Any]:
    return noop_job(job_type="webhook", payload={"url": "https://slow.example/"}) | changes


def listed(caller: Caller) -> set[str]:
    return {kind["name"] for kind in caller.get("/job-types").json()["results"]}


class TestNoop:
    """A noop sleeps while its process waits: 600 of 300 ms delayed another tenant by 50 s."""

    def test_is_not_offered_unless_a_setting_says_so(self, hostile: Caller, configure: Configure) -> None:
        configure(noop_enabled=False)
        assert "noop" not in listed(hostile)
        answer = hostile.post("/jobs", noop_job())
        assert faulty_fields(answer) == {"job_type"}
        assert answer.json()["errors"][0]["message"] == (
            "The job type 'noop' is switched off here. Known: celery_task, message, webhook."
        )
        assert hostile.post("/jobs/bulk", {"jobs": [noop_job()]}).json()["created"] == 0
        assert not Job.objects.exists()
        configure(noop_enabled=True)
        assert "noop" in listed(hostile)
        assert hostile.post("/jobs", noop_job()).status_code == 201

    def test_of_an_older_job_holds_up_no_worker(self, perform: Perform, configure: Configure) -> None:
        payload = {"sleep_ms": 1500}
        configure(noop_enabled=False)
        older, since = queued("noop", payload=payload), time.monotonic()
        assert perform(older) == {"dead": 1}
        assert time.monotonic() - since < 1.5
        assert attempts(older)[0].error_code == "type_switched_off"
        configure(noop_enabled=True)
        since = time.monotonic()
        assert perform(queued("noop", payload=payload)) == {"succeeded": 1}
        assert time.monotonic() - since > 1.4


class TestTimeouts:
    """A webhook may hold its resources for as long as its job's time-out, which could be a day."""

    def test_of_webhooks_have_a_ceiling(self, hostile: Caller, configure: Configure) -> None:
        asked = webhook_job(timeout_seconds=301)
        configure(webhook_max_timeout_seconds=300)
        answer = hostile.post("/jobs", asked)
        assert faulty_fields(answer) == {"timeout_seconds"}
        assert "at most 300" in answer.json()["errors"][0]["message"]
        assert hostile.post("/jobs", noop_job(timeout_seconds=301)).status_code == 201  # no webhook
        made = hostile.post("/jobs", webhook_job(name="b", timeout_seconds=300)).json()
        assert faulty_fields(hostile.patch(f"/jobs/{made['id']}", {"timeout_seconds": 300.5})) == {
            "timeout_seconds"
        }
        configure(webhook_max_timeout_seconds=3600)
        assert hostile.post("/jobs", webhook_job(name="c", timeout_seconds=3600)).status_code == 201

    def test_above_it_of_older_jobs_may_stay_and_are_cut(
        self, hostile: Caller, perform: Perform, configure: Configure, silent_server: str
    ) -> None:
        configure(webhook_max_timeout_seconds=3600)
        older = hostile.post("/jobs", webhook_job(timeout_seconds=3600)).json()
        configure(webhook_max_timeout_seconds=1, webhook_allow_networks=LOOPBACK)
        assert hostile.patch(f"/jobs/{older['id']}", {"priority": "low"}).status_code == 200
        trigger = queued("webhook", payload={"url": silent_server}, timeout=timedelta(hours=1))
        since = time.monotonic()
        assert perform(trigger) == {"retrying": 1}
        assert 1 <= time.monotonic() - since < 60
        assert attempts(trigger)[0].error_message == "The handler did not finish within 1 s."
