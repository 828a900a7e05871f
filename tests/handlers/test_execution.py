"""Running one synchronous handler, however it behaves."""

import signal
import sys
import threading
import time
from datetime import timedelta

import pydantic
import pytest

from jobs.handlers import execution, job_type, registry, run_sync

SHORT = timedelta(seconds=0.1)


def spin(*_: object) -> None:
    while True:
        pass


@pytest.fixture
def run(make_context):
    """Register a function and run it once."""

    def run(handler, payload=None, *, model=None, **context):
        job_type("probe", payload=model)(handler)
        ended = run_sync(registry.get("probe"), make_context(**context), payload or {})
        del registry._types["probe"]
        return ended

    return run


class TestRunSync:
    def test_gives_the_handler_its_context_and_its_parsed_payload(self, run):
        class Sum(pydantic.BaseModel):
            numbers: list[int]

        ended = run(lambda ctx, p: [ctx.tenant, sum(p.numbers)], {"numbers": [1, 2]}, model=Sum)
        assert (ended.kind, ended.result) == ("succeeded", ["acme", 3])

    def test_gives_the_plain_dict_where_there_is_no_model(self, run):
        assert run(lambda ctx, payload: payload, {"a": 1}).result == {"a": 1}

    def test_buries_a_payload_that_the_model_refuses(self, run):
        class Strict(pydantic.BaseModel):
            amount: int

        ended = run(lambda ctx, p: pytest.fail("called"), {"amount": "much"}, model=Strict)
        assert (ended.kind, ended.permanent, ended.error_code) == ("failed", True, "invalid_payload")
        assert "payload.amount" in ended.error_message

    def test_turns_sys_exit_into_a_failure(self, run):
        ended = run(lambda *_: sys.exit(3))
        assert (ended.kind, ended.error_code, ended.permanent) == ("failed", "system_exit", False)
        assert "exit(3)" in ended.error_message

    def test_lets_the_exit_of_a_stopping_worker_through(self, run):
        scope = {"__name__": "billiard.common"}
        exec("def stop(*_): raise SystemExit(-241)", scope)
        with pytest.raises(SystemExit):
            run(scope["stop"])

    def test_lets_ctrl_c_through(self, run):
        def interrupt(*_):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(interrupt)

    def test_survives_endless_recursion(self, run):
        def deeper(*_):
            return deeper()

        assert run(deeper).error_class == "RecursionError"

    @pytest.mark.parametrize(
        ("payload", "kind"), [({}, "succeeded"), ({"fail": True}, "failed"), ({"sleep_ms": 1}, "succeeded")]
    )
    def test_runs_the_noop(self, make_context, payload, kind):
        assert run_sync(registry.get("noop"), make_context(), payload).kind == kind


class TestTimeout:
    def test_ends_an_endless_loop_and_shows_where_it_was(self, run):
        ended = run(spin, timeout=SHORT)
        assert (ended.kind, ended.error_code) == ("timed_out", "timeout")
        assert "0.1 s" in ended.error_message
        assert "in spin" in ended.traceback

    def test_ends_a_sleep_and_a_wait(self, run):
        for hang in (lambda *_: time.sleep(60), lambda *_: threading.Event().wait(60)):
            assert run(hang, timeout=SHORT).kind == "timed_out"

    def test_is_not_swallowed_by_a_broad_except(self, run):
        def stubborn(*_):
            try:
                spin()
            except Exception:  # noqa: BLE001 - the fault under test
                pytest.fail("swallowed")

        assert run(stubborn, timeout=SHORT).kind == "timed_out"

    def test_rings_again_for_a_handler_that_swallows_even_that(self, run, monkeypatch):
        monkeypatch.setattr(execution, "GRACE_SECONDS", 0.05)

        def stubborn(*_):
            for _ in range(3):
                try:
                    spin()
                except BaseException:  # noqa: BLE001 - the fault under test
                    continue
            raise ValueError("something else")

        assert run(stubborn, timeout=SHORT).kind == "timed_out"

    def test_counts_as_the_cancel_that_the_handler_ignored(self, run):
        cancelled = threading.Event()
        cancelled.set()
        assert run(spin, timeout=SHORT, cancel_event=cancelled).kind == "cancelled"

    def test_puts_back_the_handler_and_the_timer_it_found(self, run):
        rung, began = [], time.monotonic()
        before = signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
        signal.setitimer(signal.ITIMER_REAL, 30, 7)
        try:
            run(spin, timeout=SHORT)
            remaining, interval = signal.getitimer(signal.ITIMER_REAL)
            assert began + 30 - time.monotonic() <= remaining + 0.01 < 29.95
            assert interval == 7
            signal.raise_signal(signal.SIGALRM)
            assert rung
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_rings_for_each_of_many_calls_that_share_one(self, run):
        with execution.alarms():
            kinds = [run(handler, timeout=SHORT).kind for handler in (spin, lambda *_: 1, spin)]
            assert kinds == ["timed_out", "succeeded", "timed_out"]
            assert run(lambda *_: 1, timeout=timedelta(seconds=60)).kind == "succeeded"
            assert run(spin, timeout=SHORT).kind == "timed_out"
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

    def test_that_an_earlier_call_left_behind_waits_for_the_present_one(self, run):
        with execution.alarms():
            assert run(lambda *_: 1, timeout=SHORT).kind == "succeeded"
            # The timer of the earlier call rings in the middle of this one.
            assert (
                run(lambda *_: time.sleep(3 * SHORT.total_seconds()), timeout=20 * SHORT).kind == "succeeded"
            )
            assert run(spin, timeout=SHORT).kind == "timed_out"

    def test_survives_a_handler_that_stops_the_timer(self, run):
        with execution.alarms():
            run(lambda *_: signal.setitimer(signal.ITIMER_REAL, 0) and None, timeout=SHORT)
            assert run(spin, timeout=SHORT).kind == "timed_out"

    def test_leaves_other_threads_alone(self, run):
        ended = []
        thread = threading.Thread(target=lambda: ended.append(run(lambda *_: 5, timeout=SHORT)))
        thread.start()
        thread.join()
        assert ended[0].result == 5


class TestInterrupt:
    def test_stops_a_handler_before_its_timeout_as_cancelled(self, run):
        def heedless(ctx, payload):
            threading.Timer(0.05, execution.interrupt, [ctx]).start()
            spin()

        ended = run(heedless)
        assert (ended.kind, ended.error_message) == (
            "cancelled",
            "The handler ignored the cancel and was interrupted.",
        )

    def test_reaches_nobody_who_is_not_at_work(self, run, make_context):
        seen = []
        other = make_context()
        assert run(lambda ctx, p: seen.append((ctx, execution.interrupt(other)))).kind == "succeeded"
        [(ctx, reached)] = seen
        assert not reached
        assert not execution.interrupt(ctx)

    def test_reaches_nobody_in_another_thread(self, run):
        ended = []
        thread = threading.Thread(target=lambda: ended.append(run(lambda ctx, p: execution.interrupt(ctx))))
        thread.start()
        thread.join()
        assert ended[0].result is False

    def test_that_was_meant_for_the_one_before_is_ignored(self, run):
        def struck(*_):
            signal.raise_signal(signal.SIGALRM)
            return "done"

        assert run(struck).result == "done"


class TestCancel:
    def test_ends_a_handler_that_asks(self, run):
        def stepwise(ctx, payload):
            ctx.cancel_event.set()
            ctx.raise_if_cancelled()

        assert run(stepwise).kind == "cancelled"

    def test_keeps_the_result_of_a_handler_that_finished_anyway(self, run):
        cancelled = threading.Event()
        cancelled.set()
        assert run(lambda *_: "done", cancel_event=cancelled).result == "done"
