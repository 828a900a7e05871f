"""Names that hang cost their own tenant, and no other."""

import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from datetime import timedelta

import pytest

from jobs.handlers import registry
from jobs.handlers.shares import look_ups
from jobs.handlers.shares.look_ups import zone_of
from stage.waiting import wait_until

CONNECT_SECONDS = 1.0


def call(context, tenant, url):
    return registry.get("webhook"), context(tenant=tenant), {"url": url}


class TestNamesThatHang:
    @pytest.mark.parametrize("zones", [1, 100], ids=["of one zone", "of many"])
    def test_hold_up_no_other_tenant(self, open_runner, make_context, receiver, asked, zones):
        runner = open_runner(connect_timeout=timedelta(seconds=60), max_concurrent=200)
        names = [f"dead{n}.z{n % zones}.example" for n in range(100)]
        hostile = [call(make_context, "hostile", f"http://{name}/") for name in names]

        def run_hostile() -> None:
            with suppress(CancelledError):  # cancelled when the runner ends
                runner.run(hostile, lambda *_: None)

        threading.Thread(target=run_hostile, daemon=True).start()
        wait_until(lambda: len(asked) >= look_ups.MAX_OF_ONE, what="the names to hang")
        since, ended = time.monotonic(), []
        ours = call(make_context, "acme", receiver.url(host="healthy.example"))
        runner.run([ours], lambda _, outcome: ended.append(outcome))
        assert [outcome.kind for outcome in ended] == ["succeeded"]
        assert time.monotonic() - since < 5
        assert len([name for name in asked if name.startswith("dead")]) == look_ups.MAX_OF_ONE

    def test_fail_fast_and_say_so(self, open_runner, make_context, asked):
        runner = open_runner(connect_timeout=timedelta(seconds=CONNECT_SECONDS))
        calls = [call(make_context, "hostile", f"http://dead{n}.z{n}.example/") for n in range(20)]
        since, ended = time.monotonic(), []
        runner.run(calls, lambda _, outcome: ended.append(outcome))
        assert time.monotonic() - since < 10 * CONNECT_SECONDS
        assert {(outcome.kind, outcome.permanent, outcome.error_code) for outcome in ended} == {
            ("failed", False, "dns_timeout")
        }
        words = " ".join(outcome.error_message for outcome in ended)
        assert "no answer for" in words
        assert "too many look-ups of tenant hostile hang" in words

    def test_cost_nothing_once_they_are_answered(self, open_runner, make_context, receiver, asked):
        runner = open_runner()
        calls = [call(make_context, "acme", receiver.url(host=f"n{n}.example")) for n in range(50)]
        ended = []
        runner.run(calls, lambda _, outcome: ended.append(outcome.kind))
        assert ended == ["succeeded"] * 50
        assert len(asked) == 50


@pytest.mark.parametrize(
    ("host", "zone"),
    [("a.b.example.com", "example.com"), ("Example.com.", "example.com"), ("x.example.co.uk", "example.co.uk"),
     ("localhost", "localhost"), ("hooks.t.co", "t.co")],
)  # fmt: skip
def test_a_zone_is_what_one_owner_is_likely_to_hold(host, zone):
    assert zone_of(host) == zone
