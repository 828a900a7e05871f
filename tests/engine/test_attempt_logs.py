"""Each line that is logged while an attempt is executed names the attempt, and each ended attempt is in the log."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from django.db import connection

from jobs.engine import endings
from jobs.handlers.context import Context
from jobs.handlers.outcome import Permanent
from jobs.models import Trigger
from jobs.telemetry import sampling
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import Beat, Perform, queued

pytestmark = pytest.mark.django_db(transaction=True)
Register = Callable[..., str]
Lines = Callable[[], list[dict[str, Any]]]
THEIRS = logging.getLogger("shop.orders")
IDS = ("tenant", "job_id", "trigger_id", "attempt_id", "attempt", "fence")


@pytest.fixture(autouse=True)
def own_second() -> Iterator[None]:
    """A test's lines are not sampled because of the lines of an earlier test."""
    endings._sampled.cache_clear()
    yield
    endings.tell_the_rest()


def ids_of(trigger: Trigger, *, number: int = 1) -> dict[str, Any]:
    [attempt] = factories.attempts(trigger)
    return {
        "tenant": trigger.job.tenant.slug,
        "job_id": str(trigger.job_id),
        "trigger_id": str(trigger.id),
        "attempt_id": str(attempt.id),
        "attempt": number,
        "fence": attempt.fence,
    }


def carried(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in IDS if name in line}


def of_event(lines: Lines, event: str) -> list[dict[str, Any]]:
    return [line for line in lines() if line["event"] == event]


def say(ctx: Context, word: str) -> None:
    THEIRS.warning("%s by logging", word)
    structlog.get_logger("shop.orders").warning(f"{word} by structlog")


def mine_of(lines: Lines, word: str) -> list[dict[str, Any]]:
    return [line for line in lines() if line["event"] in (f"{word} by logging", f"{word} by structlog")]


class TestLinesOfAHandler:
    def test_name_the_attempt_it_serves(self, perform: Perform, handler: Register, lines: Lines) -> None:
        triggers = [queued(handler(lambda ctx, payload: say(ctx, payload["word"])), payload={"word": word})
                    for word in ("one", "two")]  # fmt: skip
        perform(*triggers)
        for trigger, word in zip(triggers, ("one", "two"), strict=True):
            assert [carried(line) for line in mine_of(lines, word)] == [ids_of(trigger)] * 2

    def test_are_told_apart_where_handlers_run_at_once(
        self, perform: Perform, handler: Register, lines: Lines
    ) -> None:
        at_work: list[str] = []

        async def together(ctx: Context, payload: dict[str, Any]) -> None:
            at_work.append(payload["word"])
            while len(at_work) < 3:
                await asyncio.sleep(0.01)
            say(ctx, payload["word"])
            await asyncio.to_thread(say, ctx, payload["word"])
            await asyncio.gather(asyncio.sleep(0), _told_by_a_task(ctx, payload["word"]))

        words = ("one", "two", "three")
        name = handler(together, batch_size=3)
        triggers = [queued(name, payload={"word": word}) for word in words]
        assert perform(*triggers) == {"succeeded": 3}
        for trigger, word in zip(triggers, words, strict=True):
            assert [carried(line) for line in mine_of(lines, word)] == [ids_of(trigger)] * 6

    def test_are_told_apart_in_a_pool_of_threads(
        self, perform: Perform, handler: Register, lines: Lines
    ) -> None:
        both = threading.Barrier(2)

        def together(ctx: Context, payload: dict[str, Any]) -> None:
            both.wait(30)
            say(ctx, payload["word"])
            both.wait(30)

        name = handler(together)
        triggers = [queued(name, payload={"word": word}) for word in ("one", "two")]

        def work(trigger: Trigger) -> None:
            perform(trigger)
            connection.close()

        threads = [threading.Thread(target=work, args=(trigger,)) for trigger in triggers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for trigger, word in zip(triggers, ("one", "two"), strict=True):
            assert [carried(line) for line in mine_of(lines, word)] == [ids_of(trigger)] * 2

    def test_hold_what_it_bound_and_the_next_attempts_do_not(
        self, perform: Perform, handler: Register, lines: Lines
    ) -> None:
        def bind(ctx: Context, payload: dict[str, Any]) -> None:
            if payload["binds"]:
                structlog.contextvars.bind_contextvars(customer="c-1", worker="mine")
            say(ctx, "hello")

        name = handler(bind)
        perform(queued(name, payload={"binds": True}), queued(name, payload={"binds": False}))
        told = [(line.get("customer"), line.get("worker")) for line in mine_of(lines, "hello")]
        assert told == [("c-1", "mine")] * 2 + [(None, "w1")] * 2
        THEIRS.warning("afterwards")
        [afterwards] = of_event(lines, "afterwards")
        assert afterwards.keys() == {"event", "level", "logger", "timestamp"}

    def test_that_an_event_loop_writes_for_nobody_name_none(
        self, perform: Perform, handler: Register, lines: Lines
    ) -> None:
        """For example a line about a connection that is kept alive: one attempt made it, and another uses it."""

        async def leave_something(ctx: Context, payload: dict[str, Any]) -> None:
            over = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.call_soon(THEIRS.warning, "connection lost")
            loop.call_soon(over.set)
            await over.wait()
            THEIRS.warning("handler goes on")

        trigger = queued(handler(leave_something))
        perform(trigger)
        [loose], [of_task] = of_event(lines, "connection lost"), of_event(lines, "handler goes on")
        assert (carried(loose), carried(of_task)) == ({}, ids_of(trigger))

    def test_that_the_engine_writes_for_it_name_it_too(
        self, perform: Perform, handler: Register, lines: Lines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The line comes from the thread that writes an asynchronous handler's progress."""
        from jobs.engine.worker import reports

        async def report(ctx: Context, payload: dict[str, Any]) -> None:
            ctx.progress(0.5)

        def note(**_: Any) -> bool:
            THEIRS.warning("progress is written")
            return True

        monkeypatch.setattr(reports.execution, "note_progress", note)
        trigger = queued(handler(report))
        perform(trigger)
        [line] = of_event(lines, "progress is written")
        assert carried(line) == ids_of(trigger)


async def _told_by_a_task(ctx: Context, word: str) -> None:
    say(ctx, word)


class TestAnEndedAttempt:
    def test_is_a_line_with_lag_and_duration(self, perform: Perform, handler: Register, lines: Lines) -> None:
        trigger = queued(handler(lambda ctx, payload: None))
        perform(trigger)
        [line] = of_event(lines, "succeed")
        assert carried(line) == ids_of(trigger)
        assert (line["level"], line["outcome"], line["attempts"]) == ("info", "succeeded", 1)
        assert line["job_type"] == trigger.job_type
        assert line["scheduled_for"] == trigger.scheduled_for.isoformat()
        [attempt] = factories.attempts(trigger)
        assert line["lag_seconds"] == round((attempt.started_at - trigger.due_at).total_seconds(), 3)
        assert 0 <= line["duration_seconds"] <= 60
        assert "error" not in line

    def test_says_its_error_and_what_becomes_of_the_trigger(
        self, perform: Perform, handler: Register, lines: Lines
    ) -> None:
        def fail(ctx: Context, payload: dict[str, Any]) -> None:
            if payload["for_good"]:
                raise Permanent("no such order: Canary", code="no_order")
            raise ValueError("Canary")

        name = handler(fail)
        again, for_good = (queued(name, payload={"for_good": good}) for good in (False, True))
        perform(again, for_good)
        [retry], [bury] = of_event(lines, "retry"), of_event(lines, "bury")
        assert (retry["outcome"], retry["error"], retry["error_class"]) == (
            "failed",
            "exception",
            "ValueError",
        )
        assert retry["delay_seconds"] > 0
        assert (bury["level"], bury["outcome"], bury["error"], bury["reason"]) == (
            "warning",
            "failed",
            "no_order",
            "permanent",
        )
        assert not [line for line in lines() if "Canary" in str(line)]

    def test_is_counted_where_too_many_end(
        self, perform: Perform, handler: Register, lines: Lines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sampling, "SECOND", 5.0)  # all end within it, on any machine

        def fail_sometimes(ctx: Context, payload: dict[str, Any]) -> None:
            if payload["n"] % 4 == 0:
                raise ValueError

        name = handler(fail_sometimes)
        perform(*[queued(name, payload={"n": n}) for n in range(40)])

        def ended() -> list[dict[str, Any]]:
            return [line for line in lines() if line["event"] in ("succeed", "retry")]

        assert len(ended()) == sampling.MAX_LINES_A_SECOND
        wait_until(lambda: sum(line["attempts"] for line in ended()) == 40, 60, what="the burst's last line")
        told = Counter[str]()
        for line in ended():
            told[line["event"]] += line["attempts"]
        assert told == {"succeed": 30, "retry": 10}
        assert len(ended()) == sampling.MAX_LINES_A_SECOND + 2

    def test_is_a_line_each_at_debug(self, perform: Perform, handler: Register, lines: Lines) -> None:
        ours = logging.getLogger("carillon")
        before = ours.level
        ours.setLevel(logging.DEBUG)
        try:
            name = handler(lambda ctx, payload: None)
            perform(*[queued(name) for _ in range(15)])
        finally:
            ours.setLevel(before)
        assert [line["attempts"] for line in of_event(lines, "succeed")] == [1] * 15


class TestATriggerThatWasReaped:
    def test_is_the_line_of_its_lost_attempt(
        self, beat: Beat, lines: Lines, clock: Callable[[Any], None]
    ) -> None:
        trigger = factories.make_trigger(factories.make_job(), "running")
        attempt = factories.make_attempt(
            trigger, "started", fence=trigger.fence, number=trigger.attempt_count
        )
        clock(factories.LEASE + factories.SECOND)
        beat.cycle._patience.allows = lambda **_: True
        beat.step()
        [line] = of_event(lines, "reap")
        assert (line["attempt_id"], line["tenant"]) == (str(attempt.id), trigger.job.tenant.slug)
        assert (line["outcome"], line["state"], line["attempts"]) == ("lost", "retrying", 1)
        assert line["duration_seconds"] >= factories.LEASE.total_seconds()
        assert line["job_type"] == trigger.job_type


class TestTriggersThatEndWithoutAnAttempt:
    def test_are_counted_where_they_are_many(self, lines: Lines) -> None:
        for number in range(500):
            endings.tell_unstarted("skip", number, reason="overlap")
        endings.tell_unstarted("reap", "t", cause="message never claimed")
        endings.tell_the_rest()
        skips, [reap] = of_event(lines, "skip"), of_event(lines, "reap")
        assert len(skips) == sampling.MAX_LINES_A_SECOND + 1
        assert sum(line["triggers"] for line in skips) == 500
        assert (reap["level"], reap["cause"], reap["triggers"]) == ("warning", "message never claimed", 1)
