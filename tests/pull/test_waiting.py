"""Long polls and the reference worker, with real connections and, where it matters, a real server."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from jobs.core.errors import Crowded
from jobs.engine.pull import offers
from jobs.engine.pull.waiting import Waiting
from jobs.models import Trigger
from jobs.wakeups import wake_pull_workers
from stage.waiting import wait_until
from tests.factories import LEASE, MINUTE, SECOND, attempts, make_trigger, state_of
from tests.interfaces.api.caller import Caller
from tests.pull.conftest import TYPE, declare, pull_job, queued

pytestmark = pytest.mark.django_db(transaction=True)
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
COUNT = "example.word_count"
Turn = Callable[[], float]


class Asker:
    """Asks for work in a thread with its own connection, and notes whether it had released that while it waited."""

    def __init__(self, tenant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._job_type = f"{TYPE}@{tenant.id}"
        self._tenant_id = tenant.id
        self._pool = ThreadPoolExecutor(1)
        self.waited: list[bool] = []
        wait = offers._wait

        def noted(heard: int, *, seconds: float) -> int:
            self.waited.append(connection.connection is None)
            return wait(heard, seconds=seconds)

        monkeypatch.setattr(offers, "_wait", noted)

    def ask(self, **options: Any) -> Any:
        def claim() -> list[Any]:
            try:
                given = {"wait_seconds": 20.0} | options
                works = offers.claim(
                    tenant_id=self._tenant_id, job_types=[self._job_type], capacity=1, worker="w1", **given
                )
                return [work.row.id for work in works]
            finally:
                connection.close()

        return self._pool.submit(claim)


@pytest.fixture
def asker(tenant: Any, monkeypatch: pytest.MonkeyPatch) -> Asker:
    return Asker(tenant, monkeypatch)


class TestALongPoll:
    def test_holds_no_connection_and_is_woken_by_dispatch(
        self, asker: Asker, tenant: Any, turn: Turn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(offers, "POLL_SECONDS", 60.0)
        answer = asker.ask(wait_seconds=60.0)
        wait_until(lambda: asker.waited)
        trigger = make_trigger(pull_job(tenant))

        def answered() -> bool:
            turn()
            wake_pull_workers()  # the subscription may have begun after the turn's wake-up
            return answer.done()

        wait_until(answered, 30)
        assert answer.result() == [trigger.id]
        assert set(asker.waited) == {True}

    def test_looks_again_though_nothing_rings(self, asker: Asker, tenant: Any) -> None:
        answer = asker.ask()
        wait_until(lambda: asker.waited)
        trigger = queued(pull_job(tenant))
        assert answer.result(20) == [trigger.id]

    def test_ends_empty(self, asker: Asker) -> None:
        assert asker.ask(wait_seconds=0.2).result(20) == []

    def test_takes_nothing_for_nobody(self, asker: Asker, tenant: Any) -> None:
        answer = asker.ask(gone=lambda: bool(queued(pull_job(tenant))))
        assert answer.result(20) == []
        assert {trigger.state for trigger in Trigger.objects.all()} == {"queued"}

    def test_is_refused_where_all_places_are_taken(
        self, asker: Asker, tenant: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(offers, "places", lambda: Waiting(0))
        with pytest.raises(Crowded):
            asker.ask(wait_seconds=30.0).result(20)
        assert asker.waited == []
        trigger = queued(pull_job(tenant))
        taken: list[Any] = []

        def takes() -> list[Any]:
            wake_pull_workers()
            with suppress(Crowded):
                taken.extend(asker.ask(wait_seconds=30.0).result(20))
            return taken

        wait_until(takes, 30)
        assert taken == [trigger.id]

    def test_is_refused_again_without_another_look_until_one_may_find_something(
        self, asker: Asker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(offers, "POLL_SECONDS", 60.0)
        looks, look = [], offers._take
        monkeypatch.setattr(offers, "_take", lambda *args: looks.append(1) or look(*args))
        monkeypatch.setattr(offers, "places", lambda: Waiting(0))
        for _ in range(5):
            with pytest.raises(Crowded):
                asker.ask(wait_seconds=30.0).result(20)
        assert len(looks) == 1
        monkeypatch.setattr(offers, "POLL_SECONDS", 0.0)
        with pytest.raises(Crowded):
            asker.ask(wait_seconds=30.0).result(20)
        assert len(looks) == 2
        # A claim that may not wait is never refused.
        assert asker.ask(wait_seconds=0.0).result(20) == []
        assert len(looks) == 3


@pytest.fixture
def start(worker: Caller, live_server: Any, requests_end: None) -> Iterator[Callable[..., Any]]:
    """Start reference workers; ``change`` is Python to run before ``main``."""
    started = []

    def one(change: str = "pass") -> Any:
        code = f"import pull_worker, time; pull_worker.WAIT_SECONDS = 0.2; {change}; pull_worker.main()"
        environment = {"CARILLON_URL": live_server.url, "CARILLON_API_KEY": worker.token}
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=EXAMPLES, env={**os.environ, **environment}
        )
        started.append(process)
        return process

    yield one
    for process in started:
        process.kill()
        process.wait()


class TestTheReferenceWorker:
    def test_fits_on_a_page_and_needs_nothing_but_python(self) -> None:
        lines = (EXAMPLES / "pull_worker.py").read_text().splitlines()
        assert len(lines) <= 100
        imported = {line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))}
        assert imported <= sys.stdlib_module_names

    def test_completes_what_it_claims_and_finishes_when_told_to_stop(
        self, start: Callable[..., Any], tenant: Any
    ) -> None:
        declare(tenant, COUNT)
        good = queued(pull_job(tenant, COUNT, payload={"text": "one two three"}))
        bad = queued(pull_job(tenant, COUNT, payload={"text": 3}))
        process = start()
        wait_until(lambda: state_of(bad)[0] == "dead" and state_of(good)[0] == "succeeded", 30)
        good.refresh_from_db()
        assert good.result == {"words": 3}
        assert state_of(bad) == ("dead", "permanent")
        assert [attempt.error_message for attempt in attempts(bad)] == ["the payload has no text"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0

    def test_takes_over_from_one_that_was_killed(
        self, start: Callable[..., Any], tenant: Any, turn: Turn, clock: Callable[[Any], None]
    ) -> None:
        declare(tenant, COUNT)
        trigger = make_trigger(pull_job(tenant, COUNT, payload={"text": "one two"}))
        turn()
        hung = start("pull_worker.HANDLERS['example.word_count'] = lambda *_: time.sleep(600)")
        wait_until(lambda: state_of(trigger)[0] == "running", 30)
        hung.kill()
        clock(LEASE + SECOND)
        turn()
        assert state_of(trigger) == ("retrying", "")
        clock(LEASE + 10 * MINUTE)
        turn()
        assert state_of(trigger) == ("queued", "")
        start()
        wait_until(lambda: state_of(trigger)[0] == "succeeded", 30)
        assert [attempt.state for attempt in attempts(trigger)] == ["lost", "succeeded"]
