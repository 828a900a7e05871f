"""A worker that is told to stop while a handler goes on and on: another one has it within seconds."""

import json
import os
import signal

import psutil
import pytest

from tests.cluster.crew import Crew
from tests.cluster.stage import Stage, wait_until

pytestmark = pytest.mark.cluster


class TestSigterm:
    def test_hands_back_what_does_not_end_in_time(self):
        environment = {
            "CARILLON_HANDLER_MODULES": "tests.cluster.handlers",
            "CARILLON_DRAIN_SECONDS": "1",
            "CARILLON_STOP_GRACE_SECONDS": "1",
            # So long that nobody could have waited for it to end.
            "CARILLON_WORKER_LEASE_SECONDS": "300",
        }
        with Stage(beats=1, workers=2, **environment) as stage:
            key = json.loads(stage.manage("create_tenant", "acme", "--api-key", "test", "--json"))["api_key"]
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

    def test_keeps_no_message_from_others_while_a_handler_goes_on(self):
        environment = {
            "CARILLON_HANDLER_MODULES": "tests.cluster.handlers",
            "CARILLON_DRAIN_SECONDS": "120",
            "CARILLON_DISPATCH_DEADLINE_SECONDS": "300",
        }
        with Stage(beats=1, workers=0, **environment) as stage, Crew(stage, beats=0, workers=1) as crew:
            key = json.loads(stage.manage("create_tenant", "acme", "--api-key", "test", "--json"))["api_key"]

            def run(job_type: str) -> str:
                body = {"job_type": job_type, "schedule": {"type": "immediate"}, "payload": {}}
                return stage.call("POST", "/jobs", key=key, body=body)["id"]

            def state(job: str) -> str:
                return stage.query(f"SELECT state FROM jobs_trigger WHERE job_id = '{job}'")[0][0]

            long = run("test.heedless")
            wait_until(lambda: state(long) == "running", timeout=60, what="the handler to start")
            # Its worker has a process free, and so has asked Redis for a message.
            crew.ask_to_stop("worker1")
            crew.start("worker2")
            # Some before it stops to listen, one as it does, some after that.
            shorts = [run("test.works") for _ in range(40)]
            wait_until(
                lambda: all(state(short) == "succeeded" for short in shorts),
                timeout=45,
                what="one of both workers to have each",
            )
            assert state(long) == "running"
            crew.kill("worker1")
