"""A worker is told to stop while a handler goes on and on: another worker has the trigger within seconds."""

import os
import signal

import psutil
import pytest

from stage.waiting import wait_until
from tests.cluster.crew import Crew
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster


class TestSigterm:
    def test_hands_back_what_does_not_end_in_time(self):
        environment = {
            "CARILLON_HANDLER_MODULES": "tests.cluster.handlers",
            "CARILLON_DRAIN_SECONDS": "1",
            "CARILLON_STOP_GRACE_SECONDS": "1",
            # So long that no process could have waited for it to end.
            "CARILLON_WORKER_LEASE_SECONDS": "300",
        }
        with Stage(beats=1, workers=2, **environment) as stage:
            key = stage.create_tenant()
            body = {"job_type": "test.heedless", "schedule": {"type": "immediate"}, "payload": {}}
            job = stage.call("POST", "/jobs", key=key, body=body)["id"]

            def attempts() -> list[dict]:
                found = stage.call("GET", f"/jobs/{job}/attempts", key=key)["results"]
                return sorted(found, key=lambda attempt: attempt["number"])

            [first] = wait_until(attempts, timeout=30, what="the handler to start")
            name = first["worker"].split("@")[0]
            pid = stage.pids(name)[name]
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: len(attempts()) == 2, timeout=60, what="another worker to start it")
            assert (attempts()[0]["state"], attempts()[0]["error_code"]) == ("lost", "handed_back")
            wait_until(lambda: not psutil.pid_exists(pid), timeout=60, what="the worker to end")

    def test_is_no_crash_where_the_kill_comes_before_the_drain_ends(self):
        environment = {
            "CARILLON_HANDLER_MODULES": "tests.cluster.handlers",
            "CARILLON_DRAIN_SECONDS": "300",
            "CARILLON_WORKER_LEASE_SECONDS": "3",
        }
        with Stage(beats=1, workers=0, **environment) as stage, Crew(stage, beats=0, workers=1) as crew:
            key = stage.create_tenant()
            body = {"job_type": "test.heedless", "schedule": {"type": "immediate"}, "payload": {}}
            body["retry_policy"] = {"backoff": "fixed", "initial_delay_seconds": 0.1, "jitter": "none"}
            stage.call("POST", "/jobs", key=key, body=body)

            def attempts() -> list[tuple[str, str]]:
                return stage.query("SELECT state, error_code FROM jobs_attempt ORDER BY number")

            # Once more than a trigger may crash before it counts as poison.
            for number in range(1, 5):
                wait_until(lambda n=number: len(attempts()) == n, timeout=60, what="the handler to start")
                crew.ask_to_stop("worker1")
                wait_until(lambda: attempts()[-1] == ("started", "stopping"), timeout=30, what="its mark")
                crew.kill("worker1")
            wait_until(lambda: len(attempts()) == 5, timeout=60, what="the fifth attempt")
            assert attempts()[:4] == [("lost", "worker_stopped")] * 4
            assert stage.query("SELECT crash_count, state FROM jobs_trigger") == [(0, "running")]
            crew.kill("worker1")

    def test_keeps_no_message_from_others_while_a_handler_goes_on(self):
        environment = {
            "CARILLON_HANDLER_MODULES": "tests.cluster.handlers",
            "CARILLON_DRAIN_SECONDS": "120",
            "CARILLON_DISPATCH_DEADLINE_SECONDS": "300",
        }
        with Stage(beats=1, workers=0, **environment) as stage, Crew(stage, beats=0, workers=1) as crew:
            key = stage.create_tenant()

            def run(job_type: str) -> str:
                body = {"job_type": job_type, "schedule": {"type": "immediate"}, "payload": {}}
                return stage.call("POST", "/jobs", key=key, body=body)["id"]

            def state(job: str) -> str | None:
                rows = stage.query(f"SELECT state FROM jobs_trigger WHERE job_id = '{job}'")
                return rows[0][0] if rows else None  # a beat has yet to make it

            long = run("test.heedless")
            wait_until(lambda: state(long) == "running", timeout=60, what="the handler to start")
            # Its worker has a process free, and so has asked Redis for a message.
            crew.ask_to_stop("worker1")
            crew.start("worker2")
            # Some come before it stops listening, one as it does, some after that.
            shorts = [run("test.works") for _ in range(40)]
            wait_until(
                lambda: all(state(short) == "succeeded" for short in shorts),
                timeout=45,
                what="one of both workers to have each",
            )
            assert state(long) == "running"
            crew.kill("worker1")
