"""Names that hang cost their own tenant, not tenants that call the same host or zone, nor the one that comes last."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from jobs.handlers import AsyncRunner, Context, Outcome, registry
from jobs.handlers.shares import look_ups
from jobs.handlers.shares.look_ups import LookUps
from stage.waiting import wait_until
from tests.handlers.conftest import Receiver

pytestmark = pytest.mark.usefixtures("job_types")
CONNECT_SECONDS = 2.0


class Callers:
    """Tenants that call by one runner, as in one process."""

    def __init__(self, runner: AsyncRunner, make_context: Callable[..., Context]) -> None:
        self._runner = runner
        self._make_context = make_context

    def call(self, tenant: str, *urls: str) -> list[Outcome]:
        ended: list[Outcome] = []
        calls = [(registry.get("webhook"), self._make_context(tenant=tenant), {"url": url}) for url in urls]
        self._runner.run(calls, lambda _, outcome: ended.append(outcome))
        return ended

    def begin(self, tenant: str, *urls: str) -> list[Outcome]:
        ended: list[Outcome] = []

        def run() -> None:
            with suppress(CancelledError):  # by the runner's end
                ended.extend(self.call(tenant, *urls))

        threading.Thread(target=run, daemon=True).start()
        return ended


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were asked for, whether they got a thread or wait in a line for one."""
    names, run = [], LookUps.run

    async def noted(self: LookUps, host: str, look_up: Any) -> Any:
        names.append(host)
        return await run(self, host, look_up)

    monkeypatch.setattr(LookUps, "run", noted)
    return names


@pytest.fixture
def callers(
    open_runner: Callable[..., AsyncRunner], make_context: Callable[..., Context], asked: list[str]
) -> Callers:
    return Callers(open_runner(connect_timeout=timedelta(seconds=CONNECT_SECONDS)), make_context)


def dead(asked: list[str]) -> int:
    return sum(host.startswith("dead") for host in asked)


class TestAnothersTenantsName:
    def test_is_not_asked_for_in_a_line_that_hangs(
        self, callers: Callers, receiver: Receiver, asked: list[str], wanted: list[str]
    ) -> None:
        """The hostile tenant asks for the name first, behind its own that hang. A caller that joined it would fail."""
        theirs = receiver.url(host="healthy.example")
        callers.begin("hostile", *(f"http://dead{n}.z{n}.example/" for n in range(look_ups.MAX_OF_ONE)))
        wait_until(lambda: dead(asked) == look_ups.MAX_OF_ONE, what="the names to hang")
        failed = callers.begin("hostile", theirs)
        wait_until(lambda: "healthy.example" in wanted, what="its call to wait in line")
        since = time.monotonic()
        assert [outcome.kind for outcome in callers.call("acme", theirs)] == ["succeeded"]
        print(f"a name that a line waits for: {time.monotonic() - since:.2f} s")
        assert time.monotonic() - since < CONNECT_SECONDS / 2
        # The control: in that line it would not have been answered.
        wait_until(lambda: failed, what="the hostile tenant's own call to fail")
        assert failed[0].error_code == "dns_timeout"

    def test_of_a_zone_whose_names_hang_is_asked_for(
        self, callers: Callers, receiver: Receiver, asked: list[str]
    ) -> None:
        callers.begin("hostile", *(f"http://dead{n}.shared.example/" for n in range(20)))
        wait_until(lambda: dead(asked) == look_ups.MAX_OF_ONE, what="the names to hang")
        since = time.monotonic()
        ended = callers.call("acme", receiver.url(host="ours.shared.example"))
        assert [outcome.kind for outcome in ended] == ["succeeded"]
        print(f"a name of a zone that hangs: {time.monotonic() - since:.2f} s")
        assert time.monotonic() - since < CONNECT_SECONDS / 2
        # The control: no other tenant's second name of the zone gets a thread.
        urls = (f"http://dead{n}.shared.example/" for n in range(2))
        told = " ".join(failed.error_message for failed in callers.call("another", *urls))
        assert "too many look-ups of zone shared.example hang" in told

    def test_is_asked_for_whatever_many_tenants_do(
        self, callers: Callers, receiver: Receiver, asked: list[str], wanted: list[str]
    ) -> None:
        assert self._delay_beside_many(callers, receiver, asked, wanted) < CONNECT_SECONDS / 2

    def test_would_not_be_if_threads_had_no_reserve(
        self,
        callers: Callers,
        receiver: Receiver,
        asked: list[str],
        wanted: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The control."""

        def full(self: LookUps, whose: str, zone: str) -> str:
            taken = self._of_tenants[whose] >= self._of_one or self._all >= self._total
            return "this worker process" if taken else ""

        monkeypatch.setattr(LookUps, "_full", full)
        assert self._delay_beside_many(callers, receiver, asked, wanted) >= CONNECT_SECONDS

    @staticmethod
    def _delay_beside_many(
        callers: Callers, receiver: Receiver, asked: list[str], wanted: list[str]
    ) -> float:
        for number in range(20):
            callers.begin(f"t{number}", *(f"http://dead{n}.t{number}z{n}.example/" for n in range(8)))
        wait_until(lambda: len(wanted) == 160, what="all to be wanted")
        wait_until(lambda: dead(asked) > look_ups.MAX_LOOK_UPS * 0.8, what="the names to hang")
        since = time.monotonic()
        callers.call("acme", receiver.url(host="healthy.example"))
        print(f"beside 20 tenants whose names hang: {time.monotonic() - since:.2f} s")
        return time.monotonic() - since


class TestAnswers:
    def test_are_kept_for_all_and_checked_for_each(
        self, callers: Callers, receiver: Receiver, asked: list[str]
    ) -> None:
        url = receiver.url(host="healthy.example")
        for tenant in ("acme", "bravo", "acme"):
            assert callers.call(tenant, url)[0].kind == "succeeded"
        assert asked == ["healthy.example"]
