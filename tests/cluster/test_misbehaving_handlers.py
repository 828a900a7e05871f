"""A handler may do anything: its attempt says so, its trigger follows the policy, and the others are unharmed."""

import pytest

from stage.waiting import wait_until
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster

#: job type -> attempt state, error code, the trigger's end after two attempts
EXPECTED = {
    "test.raises": ("failed", "RuntimeError", "exhausted"),
    "test.hangs": ("timed_out", "", "exhausted"),
    "test.returns_nonsense": ("failed", "", "exhausted"),
    "test.dies": ("lost", "", "exhausted"),
}
#: They are cancelled while they run, and ignore it: how each is stopped.
HEEDLESS = {"test.heedless": "interrupted", "test.unreachable": "process was ended"}
RETRY = {"max_attempts": 2, "backoff": "fixed", "initial_delay_seconds": 0.1, "jitter": "none"}


class TestMisbehavingHandlers:
    def test_end_as_attempts_that_say_so_and_leave_others_unharmed(self):
        environment = {
            "CARILLON_HANDLER_MODULES": "tests.cluster.handlers",
            "CARILLON_WORKER_LEASE_SECONDS": "3",
            "CARILLON_STOP_GRACE_SECONDS": "1",
        }
        with Stage(beats=1, workers=1, **environment) as stage:
            key = stage.create_tenant()
            jobs = {}
            for job_type in (*EXPECTED, *HEEDLESS, "test.works"):
                body = {
                    "job_type": job_type,
                    "schedule": {"type": "immediate"},
                    "retry_policy": RETRY,
                    "payload": {},
                }
                jobs[job_type] = stage.call("POST", "/jobs", key=key, body=body)["id"]

            def trigger(job_type: str) -> dict:
                found = stage.call("GET", f"/jobs/{jobs[job_type]}/triggers", key=key)["results"]
                return found[0] if found else {"state": None}

            for job_type, words in HEEDLESS.items():
                running = wait_until(
                    lambda t=job_type: (found := trigger(t))["state"] == "running" and found,
                    timeout=30,
                    what=f"{job_type} to run",
                )
                stage.call("POST", f"/triggers/{running['id']}/cancel", key=key)
                wait_until(
                    lambda t=job_type: trigger(t)["state"] == "cancelled",
                    timeout=30,
                    what=f"{job_type} to be stopped",
                )
                [attempt] = stage.call("GET", f"/triggers/{running['id']}/attempts", key=key)["results"]
                assert attempt["state"] == "cancelled"
                assert words in attempt["error_message"]

            for job_type, (state, error_class, reason) in EXPECTED.items():
                dead = wait_until(
                    lambda t=job_type: (found := trigger(t))["state"] == "dead" and found,
                    timeout=60,
                    what=f"{job_type} to be buried",
                )
                assert dead["reason"] == reason
                attempts = stage.call("GET", f"/triggers/{dead['id']}/attempts", key=key)["results"]
                assert [attempt["state"] for attempt in attempts] == [state, state], job_type
                assert all(error_class in attempt["error_class"] for attempt in attempts)
                assert all(attempt["error_message"] for attempt in attempts)
            assert trigger("test.works")["state"] == "succeeded"
            # The worker replaced the processes that died and still works.
            again = stage.call("POST", "/jobs", key=key, body={**body, "name": "again"})["id"]
            wait_until(
                lambda: (
                    stage.call("GET", f"/jobs/{again}/triggers", key=key)["results"][:1]
                    and stage.call("GET", f"/jobs/{again}/triggers", key=key)["results"][0]["state"]
                    == "succeeded"
                ),
                timeout=30,
                what="the worker to work on",
            )
