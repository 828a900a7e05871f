"""The web server as README starts it: ``gunicorn.conf.py`` must make the short line the right one."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jobs.models import Clock
from jobs.telemetry.release import release
from stage.waiting import wait_until
from tenants.actions import create_api_key
from tests.cluster.web import Web, serving
from tests.factories import make_tenant

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with serving(tmp_path / "web.log", CARILLON_LONG_POLLS="20") as server:
        yield server
    assert "WORKER TIMEOUT" not in (tmp_path / "web.log").read_text()


class TestTheLineInReadme:
    def test_answers_at_once_while_as_many_streams_are_open_as_may_be(self, web: Web) -> None:
        with ExitStack() as open_streams:
            for share in (10, 5, 3, 1, 1):  # each tenant gets half of the rest
                _, key = create_api_key(tenant=make_tenant(), name="tests", scopes=("read",))
                for _ in range(share):
                    stream = open_streams.enter_context(
                        web.ask("/api/v1/events", key=key, accept="text/event-stream")
                    )
                    assert stream.readline() == b"retry: 1000\n"
            began = time.monotonic()
            for _ in range(20):
                assert web.ask("/livez", timeout=2).status == 200
            assert web.ask("/api/v1/jobs", key=key, timeout=5).status == 200
            assert time.monotonic() - began < 5
            # The streams are alive; this is no leftover of them.
            assert stream.readline() == b"\n"

    def test_says_which_release_it_runs_and_how_far_off_its_clock_is(self, web: Web) -> None:
        wait_until(lambda: Clock.objects.filter(name__startswith="web@").exists(), timeout=30)
        [clock] = Clock.objects.filter(name__startswith="web@")
        assert clock.version == release()
        assert abs(clock.offset_seconds) < 1

    def test_stops_within_its_grace_while_a_stream_is_open(self, web: Web) -> None:
        _, key = create_api_key(tenant=make_tenant(), name="tests", scopes=("read",))
        with web.ask("/api/v1/events", key=key, accept="text/event-stream") as stream:
            stream.readline()
            web.process.send_signal(signal.SIGTERM)
            assert web.process.wait(15) == 0
