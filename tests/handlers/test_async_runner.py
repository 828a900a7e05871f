"""Many asynchronous handlers on one loop: every call ends in one outcome."""

import asyncio
import concurrent.futures
import os
import signal
import sys
import threading
import time
from collections import Counter
from datetime import timedelta

import pytest
from aiohttp import web

from jobs.handlers import Permanent, async_runner, job_type, registry
from stage.waiting import wait_until

SHORT = timedelta(seconds=0.15)


@pytest.fixture
def kind():
    """Register a coroutine function and give its type."""

    def register(handler):
        job_type("probe")(handler)
        return registry._types.pop("probe")

    return register


async def hang(ctx, payload):
    await asyncio.Event().wait()


class TestRun:
    def test_runs_calls_side_by_side_and_reports_in_the_callers_thread(self, kind, open_runner, make_context):
        together = threading.Barrier(3)

        async def meet(ctx, payload):
            await asyncio.to_thread(together.wait, 5)
            return payload["n"]

        ended = {}

        def on_outcome(ctx, outcome):
            assert threading.current_thread() is threading.main_thread()
            ended[ctx.fence] = outcome.result

        probe = kind(meet)
        open_runner().run([(probe, make_context(fence=n), {"n": n}) for n in range(3)], on_outcome)
        assert ended == {0: 0, 1: 1, 2: 2}

    def test_returns_at_once_from_an_empty_batch(self, open_runner):
        open_runner().run([], lambda *_: pytest.fail("called"))

    def test_holds_no_more_than_its_bound_at_once(self, kind, open_runner, make_context):
        busy, most = 0, 0

        async def count(ctx, payload):
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0.02)
            busy -= 1

        ended = []
        probe = kind(count)
        open_runner(max_concurrent=8).run(
            [(probe, make_context(), {})] * 20, lambda _, outcome: ended.append(outcome.kind)
        )
        assert (most, ended) == (3, ["succeeded"] * 20)

    def test_starts_none_while_it_may_not(self, kind, open_runner, make_context):
        async def quick(ctx, payload):
            return 1

        sure, started, ended = threading.Event(), [], []
        threading.Timer(0.5, sure.set).start()
        calls = [(kind(quick), make_context(fence=n), {}) for n in (1, 2)]

        def on_start(ctx):
            assert sure.is_set()
            started.append(ctx.fence)

        open_runner().run(
            calls, lambda _, outcome: ended.append(outcome.kind), on_start=on_start, may_start=sure.is_set
        )
        assert (started, ended) == ([1, 2], ["succeeded"] * 2)

    def test_gives_each_call_its_time_from_its_own_start(self, kind, open_runner, make_context):
        async def sleep(ctx, payload):
            await asyncio.sleep(payload["seconds"])

        ended = {}
        probe = kind(sleep)
        calls = [
            (probe, make_context(fence=n, timeout=timedelta(seconds=60)), {"seconds": 0}) for n in (1, 2)
        ]
        calls.append((probe, make_context(fence=3, timeout=SHORT), {"seconds": 60}))
        calls.append((probe, make_context(fence=4), {"seconds": 0}))
        open_runner(max_concurrent=1).run(calls, lambda ctx, outcome: ended.update({ctx.fence: outcome.kind}))
        assert ended == {1: "succeeded", 2: "succeeded", 3: "timed_out", 4: "succeeded"}

    def test_times_out_each_in_its_turn(self, kind, open_runner, make_context):
        ended = []
        limits = (0.3, 0.1, 0.2)
        calls = [(kind(hang), make_context(timeout=timedelta(seconds=limit)), {}) for limit in limits]
        open_runner().run(
            calls, lambda ctx, outcome: ended.append((outcome.kind, ctx.timeout.total_seconds()))
        )
        assert ended == [("timed_out", limit) for limit in sorted(limits)]

    def test_lets_others_go_on_while_it_stops_hundreds(self, kind, open_runner, make_context):
        stopped, in_a_turn = [], []

        async def note_its_stop(ctx, payload):
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(ctx)

        async def watch(ctx, payload):
            while len(stopped) < 500:
                before = len(stopped)
                await asyncio.sleep(0)
                in_a_turn.append(len(stopped) - before)

        calls = [(kind(watch), make_context(timeout=timedelta(seconds=60)), {})]
        calls += [(kind(note_its_stop), make_context(timeout=timedelta(seconds=1)), {})] * 500
        ended = Counter()
        open_runner(max_concurrent=1000).run(calls, lambda _, outcome: ended.update([outcome.kind]))
        assert ended == {"timed_out": 500, "succeeded": 1}
        assert max(in_a_turn) <= async_runner.MAX_STOPS_A_TURN

    def test_does_not_stop_a_call_that_ends_before_its_turn_to_be_stopped(
        self, kind, open_runner, make_context, monkeypatch
    ):
        monkeypatch.setattr(async_runner, "MAX_STOPS_A_TURN", 1)

        async def sleep(ctx, payload):
            await asyncio.sleep(payload["seconds"])

        async def compute_at_its_end(ctx, payload):
            try:
                await asyncio.Event().wait()
            finally:
                time.sleep(0.1)

        late = {"seconds": SHORT.total_seconds() + 0.1}
        calls = [(kind(compute_at_its_end), make_context(timeout=SHORT), {})] * 5
        calls.append((kind(sleep), make_context(timeout=SHORT), late))
        ended = Counter()
        open_runner().run(calls, lambda _, outcome: ended.update([outcome.kind]))
        assert ended == {"timed_out": 5, "succeeded": 1}

    def test_takes_thousands_that_were_cancelled_before(self, kind, open_runner, make_context):
        cancelled = threading.Event()
        cancelled.set()
        ended = []
        calls = [(kind(hang), make_context(cancel_event=cancelled), {})] * 3000
        open_runner().run(calls, lambda _, outcome: ended.append(outcome.kind))
        assert ended == ["cancelled"] * 3000

    def test_fails_only_the_call_that_raises(self, kind, run_one, make_context):
        async def refuse(ctx, payload):
            raise Permanent("no")

        async def leave(ctx, payload):
            sys.exit(1)

        async def nonsense(ctx, payload):
            return object()

        codes = [
            run_one(kind(handler), make_context(), {}).error_code for handler in (refuse, leave, nonsense)
        ]
        assert codes == ["permanent", "system_exit", "bad_result"]

    def test_calls_back_while_it_waits(self, kind, open_runner, make_context):
        idle = threading.Event()

        async def wait_for_idle(ctx, payload):
            await asyncio.to_thread(idle.wait, 5)
            return idle.is_set()

        ended = []
        open_runner().run(
            [(kind(wait_for_idle), make_context(), {})],
            lambda _, outcome: ended.append(outcome.result),
            on_idle=idle.set,
            idle_seconds=0.01,
        )
        assert ended == [True]

    def test_cancels_the_rest_when_a_callback_raises(self, kind, open_runner, make_context):
        stopped = threading.Event()

        async def until_cancelled(ctx, payload):
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async def quick(ctx, payload):
            return 1

        def explode(ctx, outcome):
            raise LookupError("the callback's own fault")

        with pytest.raises(LookupError):
            open_runner().run(
                [(kind(until_cancelled), make_context(), {}), (kind(quick), make_context(), {})], explode
            )
        assert stopped.wait(5)


class TestEnding:
    def test_times_a_call_out_by_its_own_limit(self, kind, run_one, make_context):
        ended = run_one(kind(hang), make_context(timeout=SHORT), {})
        assert (ended.kind, ended.error_code) == ("timed_out", "timeout")

    def test_abandons_a_handler_that_will_not_stop(self, kind, run_one, make_context, monkeypatch):
        monkeypatch.setattr(async_runner, "GRACE_SECONDS", 0.1)
        release = threading.Event()

        async def stubborn(ctx, payload):
            while not release.is_set():
                try:
                    await asyncio.sleep(0.5)
                except asyncio.CancelledError:
                    continue

        assert run_one(kind(stubborn), make_context(timeout=SHORT), {}).kind == "timed_out"
        release.set()

    def test_does_not_take_the_handlers_own_timeout_error_for_its_own(self, kind, run_one, make_context):
        async def inner(ctx, payload):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()

        ended = run_one(kind(inner), make_context(), {})
        assert (ended.kind, ended.error_class) == ("failed", "TimeoutError")

    def test_cancels_a_call_when_its_context_says_so(self, kind, run_one, make_context):
        started, cancelled = threading.Event(), threading.Event()

        async def started_then_hang(ctx, payload):
            started.set()
            await asyncio.Event().wait()

        threading.Thread(target=lambda: started.wait(5) and cancelled.set(), daemon=True).start()
        assert run_one(kind(started_then_hang), make_context(cancel_event=cancelled), {}).kind == "cancelled"

    def test_does_not_start_a_call_that_was_cancelled_before(self, kind, run_one, make_context):
        cancelled = threading.Event()
        cancelled.set()

        async def never(ctx, payload):
            raise AssertionError("started")

        assert run_one(kind(never), make_context(cancel_event=cancelled), {}).kind == "cancelled"


class TestALoopThatIsHeldUp:
    def test_reads_answers_that_came_in_time_before_it_ends_calls_that_are_overdue(
        self, kind, open_runner, make_context, receiver
    ):
        async def answer(request):
            await asyncio.sleep(0.1)
            return web.Response(text="ok")

        async def hold_up(ctx, payload):
            while not receiver.requests:
                await asyncio.sleep(0.01)
            threading.Event().wait(2)

        receiver.answers["/hook"] = answer
        runner, ended = open_runner(), []
        limit = timedelta(seconds=1)
        calls = [
            (registry.get("webhook"), make_context(timeout=limit), {"url": receiver.url()}),
            (kind(hold_up), make_context(timeout=timedelta(seconds=30)), {}),
            (kind(hang), make_context(timeout=limit), {}),
        ]
        runner.run(calls, lambda _, outcome: ended.append(outcome.kind))
        assert sorted(ended) == ["succeeded", "succeeded", "timed_out"]


class TestClose:
    def test_is_repeatable_and_lets_run_start_afresh(self, kind, open_runner, make_context, run_one):
        async def quick(ctx, payload):
            return 1

        runner = open_runner()
        runner.close()
        for _ in range(2):
            assert run_one(kind(quick), make_context(), {}, runner=runner).result == 1
            runner.close()
            runner.close()

    def test_says_so_to_a_run_in_another_thread(self, kind, open_runner, make_context):
        runner = open_runner()
        started = threading.Event()

        async def started_then_hang(ctx, payload):
            started.set()
            await asyncio.Event().wait()

        call = (kind(started_then_hang), make_context(), {})
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(runner.run, [call], lambda *_: None)
            assert started.wait(5)
            runner.close()
            with pytest.raises(concurrent.futures.CancelledError):
                running.result(5)


class TestFork:
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_leaves_a_child_with_a_loop_of_its_own(self, kind, open_runner, make_context, run_one):
        async def pid(ctx, payload):
            return os.getpid()

        runner, probe = open_runner(), kind(pid)
        assert run_one(probe, make_context(), {}, runner=runner).result == os.getpid()
        child = os.fork()
        if child == 0:
            served = run_one(probe, make_context(), {}, runner=runner).result == os.getpid()
            os._exit(0 if served else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_leaves_a_child_no_copy_of_a_connection(self, open_runner, make_context, receiver):
        """With a copy, a target would not notice that a call was cancelled."""
        hung_up = threading.Event()

        async def wait(request):
            try:
                await asyncio.sleep(30)
            finally:
                hung_up.set()

        receiver.answers["/hook"] = wait
        runner, cancel = open_runner(), threading.Event()
        ctx, ended = make_context(cancel_event=cancel), []
        call = (registry.get("webhook"), ctx, {"url": receiver.url()})
        calling = threading.Thread(target=runner.run, args=([call], lambda _, outcome: ended.append(outcome)))
        calling.start()
        wait_until(lambda: receiver.requests, what="the request to arrive")
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        try:
            cancel.set()
            calling.join(10)
            assert [outcome.kind for outcome in ended] == ["cancelled"]
            assert hung_up.wait(10)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


class TestFailed:
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_says_that_no_call_will_end_once_the_loop_has_lost_its_descriptors(
        self, kind, open_runner, make_context
    ):
        runner = open_runner()
        assert not runner.failed()
        started = threading.Event()

        async def closes(ctx, payload):
            started.set()
            os.close(asyncio.get_running_loop()._selector.fileno())
            await asyncio.sleep(30)

        call = (kind(closes), make_context(), {})
        threading.Thread(target=runner.run, args=([call], lambda *_: None), daemon=True).start()
        assert started.wait(10)
        wait_until(runner.failed, what="the loop to end")
