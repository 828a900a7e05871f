"""The output of a handler is kept with its own attempt, however the attempt ends."""

import asyncio
import contextvars
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.worker.process import THIS
from jobs.handlers.context import Context
from jobs.handlers.outcome import Permanent
from jobs.models import Attempt, Trigger
from jobs.store import execution
from jobs.telemetry import keep_prints
from jobs.telemetry.output import MAX_BYTES
from tenants.vault.secrets import put_secret
from tests import factories
from tests.engine.conftest import Perform, queued
from tests.factories import SECOND

pytestmark = pytest.mark.django_db(transaction=True)
Register = Callable[..., str]
THEIRS = logging.getLogger("shop.orders")
VALUE = "s3cr3t-v4lue-of-the-tenant"


def output_of(trigger: Trigger) -> str | None:
    [attempt] = Attempt.objects.defer(None).filter(trigger_id=trigger.id)
    return attempt.output


def lines_of(trigger: Trigger) -> list[str]:
    """The lines without the time of day before each."""
    return [line.partition("Z ")[2] for line in (output_of(trigger) or "").splitlines()]


class TestOutput:
    @pytest.mark.slow
    def test_is_kept_however_the_attempt_ends(self, perform: Perform, handler: Register) -> None:
        def speak(ctx: Context, payload: dict[str, Any]) -> None:
            ctx.log(f"began {payload['ends']}")
            if payload["ends"] == "badly":
                raise Permanent("no")
            if payload["ends"] == "late":
                while True:
                    time.sleep(0.01)

        name = handler(speak)
        alone = queued(name, payload={"ends": "well"})
        perform(alone)
        ends_of_them = ("well", "badly", "late")
        together = [queued(name, payload={"ends": ends}, timeout=SECOND) for ends in ends_of_them]
        assert perform(*together) == {"succeeded": 1, "dead": 1, "retrying": 1}
        for trigger, ends in zip((alone, *together), ("well", "well", "badly", "late"), strict=True):
            assert lines_of(trigger) == [f"began {ends}"]

    def test_is_nothing_of_a_handler_that_says_nothing(self, perform: Perform, handler: Register) -> None:
        name = handler(lambda ctx, payload: None)
        alone, *others = [queued(name) for _ in range(3)]
        perform(alone)
        perform(*others)
        assert [output_of(trigger) for trigger in (alone, *others)] == [None] * 3

    def test_holds_the_lines_of_logging_and_structlog(self, perform: Perform, handler: Register) -> None:
        def speak(ctx: Context, payload: Any) -> None:
            THEIRS.warning("%s by logging", "one", extra={"ignored": 1})
            structlog.get_logger("shop.orders").warning("by structlog", order=7, tenant="x")
            try:
                raise ValueError("broken")
            except ValueError:
                THEIRS.exception("failed")

        trigger = queued(handler(speak))
        perform(trigger)
        said = output_of(trigger) or ""
        assert lines_of(trigger)[:3] == [
            "WARNING shop.orders one by logging",
            "WARNING shop.orders by structlog order=7",
            "ERROR shop.orders failed",
        ]
        assert said.endswith("ValueError: broken\n")
        assert "in speak" in said

    def test_holds_no_line_of_the_installation(self, perform: Perform, handler: Register) -> None:
        def speak(ctx: Context, payload: Any) -> None:
            for name in (
                "carillon",
                "celery.worker",
                "kombu.connection",
                "asyncio",
                "py.warnings",
                "django.db",
            ):
                logging.getLogger(name).error("amqp://user:password@broker")

        trigger = queued(handler(speak))
        perform(trigger)
        assert output_of(trigger) is None

    def test_holds_what_is_printed_beside_printing_it(
        self, perform: Perform, handler: Register, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async def speak(ctx: Context, payload: dict[str, Any]) -> None:
            for number in range(3):
                print(payload["word"], number)
                await asyncio.sleep(0.01)
            print("not kept", file=sys.stderr)
            sys.stdout.writelines(["the ", "end\n"])
            assert sys.stdout.isatty() is False

        name = handler(speak)
        triggers = [queued(name, payload={"word": word}) for word in "ab"]
        before = sys.stdout
        try:
            for _ in range(2):
                keep_prints()
            print("nobody's")
            perform(*triggers)
        finally:
            sys.stdout = before
        for trigger, word in zip(triggers, "ab", strict=True):
            assert output_of(trigger) == f"{word} 0\n{word} 1\n{word} 2\nthe end\n"
        printed = capsys.readouterr().out
        assert [printed.count(text) for text in ("nobody's\n", "a 1\n", "b 2\n", "the end\n")] == [1, 1, 1, 2]

    def test_is_each_attempts_own_where_handlers_run_at_once(
        self, perform: Perform, handler: Register
    ) -> None:
        at_work: list[str] = []

        async def together(ctx: Context, payload: dict[str, Any]) -> None:
            word = payload["word"]
            at_work.append(word)
            while len(at_work) < 3:
                await asyncio.sleep(0.01)
            ctx.log(f"{word} by ctx")
            await asyncio.sleep(0.01)
            THEIRS.warning("%s by logging", word)
            await asyncio.to_thread(THEIRS.warning, "%s by a thread", word)

        name = handler(together)
        triggers = [queued(name, payload={"word": word}) for word in "abc"]
        perform(*triggers)
        for trigger, word in zip(triggers, "abc", strict=True):
            assert lines_of(trigger) == [
                f"{word} by ctx",
                f"WARNING shop.orders {word} by logging",
                f"WARNING shop.orders {word} by a thread",
            ]

    def test_holds_what_threads_say_that_have_the_context(self, perform: Perform, handler: Register) -> None:
        def speak(ctx: Context, payload: Any) -> None:
            works: list[tuple[Callable[..., Any], ...]] = [
                (ctx.log, "by ctx"),
                (contextvars.copy_context().run, THEIRS.warning, "by logging"),
                (THEIRS.warning, "by nobody's thread"),
            ]
            for work, *arguments in works:
                thread = threading.Thread(target=work, args=arguments)
                thread.start()
                thread.join()

        trigger = queued(handler(speak))
        perform(trigger)
        assert lines_of(trigger) == ["by ctx", "WARNING shop.orders by logging"]

    def test_is_over_with_the_attempt(self, perform: Perform, handler: Register) -> None:
        contexts: list[Context] = []
        name = handler(lambda ctx, payload: contexts.append(ctx))
        first, second = queued(name), queued(name)
        perform(first, second)
        contexts[0].log("too late")
        assert (output_of(first), output_of(second)) == (None, None)

    def test_of_a_flood_is_bounded(self, perform: Perform, handler: Register) -> None:
        noise = "\0\x1b[31m" * 40

        def flood(ctx: Context, payload: Any) -> None:
            for number in range(20_000):
                ctx.log(f"{number} {noise}")

        trigger = queued(handler(flood))
        assert perform(trigger) == {"succeeded": 1}
        said = output_of(trigger) or ""
        assert len(said.encode()) <= MAX_BYTES
        assert "bytes left out" in said
        assert lines_of(trigger)[0].strip() == "0"
        assert lines_of(trigger)[-1].strip() == "19999"

    @pytest.mark.slow
    def test_of_a_flood_that_a_time_out_ends_is_kept(self, perform: Perform, handler: Register) -> None:
        def flood(ctx: Context, payload: Any) -> None:
            while True:
                ctx.log("drop")

        name = handler(flood)
        triggers = [queued(name, timeout=SECOND) for _ in range(2)]
        assert perform(*triggers) == {"retrying": 2}
        for trigger in triggers:
            assert set(lines_of(trigger)[:100]) == {"drop"}

    def test_is_kept_of_a_trigger_that_is_handed_back_or_given_up(
        self, perform: Perform, handler: Register
    ) -> None:
        def speak(ctx: Context, payload: dict[str, Any]) -> None:
            ctx.log(payload["how"])
            [batch] = THIS.renewer._batches
            for _ in range(2):  # twice, as when the first try fails
                batch.hand_back() if payload["how"] == "back" else batch.rescue(True)

        name = handler(speak)
        for how in ("back", "up"):
            trigger = queued(name, payload={"how": how})
            assert perform(trigger) == {"stale": 1}
            assert lines_of(trigger) == [how]

    def test_of_a_late_report_is_kept_and_what_was_known_outlives_a_silent_one(
        self, perform: Perform, handler: Register
    ) -> None:
        for said, expected in (("late", "late"), (None, "known")):
            trigger = factories.make_trigger(state="running")
            attempt = factories.make_attempt(trigger, output="known")
            Trigger.objects.filter(id=trigger.id).update(fence=trigger.fence + 1)
            execution.finish([factories.finish_of(trigger, attempt, output=said)])
            assert output_of(trigger) == expected


class TestSecrets:
    @pytest.fixture
    def tell(self, handler: Register) -> str:
        def tell(ctx: Context, payload: dict[str, Any]) -> None:
            value = ctx.secret("token")
            ctx.log(f"{value[:9]}\0{value[9:]} and {value}")
            THEIRS.warning("sent %s", {"Authorization": f"Bearer {value}"})
            for _ in range(payload["times"]):
                ctx.log(value)

        return handler(tell, secrets=lambda payload: {"token": ["token"]})

    @pytest.mark.parametrize("times", [0, 10_000])
    def test_stand_in_no_output(self, perform: Perform, tell: str, times: int) -> None:
        tenant = factories.make_tenant()
        put_secret(tenant=tenant, name="token", value=VALUE, hosts=["*"])
        job = factories.make_job(tenant, job_type=tell, payload={"times": times})
        trigger = factories.make_trigger(job, "queued")
        assert perform(trigger) == {"succeeded": 1}
        said = output_of(trigger) or ""
        assert lines_of(trigger)[0] == "{{secret:token}} and {{secret:token}}"
        assert "Bearer {{secret:token}}" in said
        assert len(said.encode()) <= MAX_BYTES
        assert ("bytes left out" in said) == bool(times)
        for length in range(6, len(VALUE)):
            assert VALUE[:length] not in said
            assert VALUE[-length:] not in said


class TestRows:
    def test_come_without_it_and_tell_how_much_there_is(self) -> None:
        trigger = factories.make_trigger(state="running")
        factories.make_attempt(trigger, output="é" * 10)
        with CaptureQueriesContext(connection) as queries:
            [attempt] = Attempt.objects.filter(trigger_id=trigger.id)
        assert attempt.output_bytes == 20
        size = 'octet_length("jobs_attempt"."output")'
        asked = "".join(query["sql"] for query in queries).replace(size, "")
        assert '"jobs_attempt"."output"' not in asked
        assert '"jobs_attempt"."state"' in asked
        assert attempt.output == "é" * 10
