"""A handler that holds the interpreter silences its process: it runs once all the same, and no longer than it may."""

from collections.abc import Callable, Iterator

import psutil
import pytest

from stage.waiting import wait_until
from tests.cluster.crew import Crew
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
LEASE_SECONDS = 3
ENVIRONMENT = {
    "CARILLON_HANDLER_MODULES": "tests.cluster.handlers",
    "CARILLON_WORKER_LEASE_SECONDS": str(LEASE_SECONDS),
    "CARILLON_STOP_GRACE_SECONDS": "1",
}
Ran = Callable[..., tuple[dict, list[dict]]]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(beats=1, workers=0, **ENVIRONMENT) as stage:
        yield stage


@pytest.fixture(scope="module", params=["prefork", "threads", "solo"])
def ran(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Ran]:
    """``ran("test.hogs", seconds=9)``: the trigger of an immediate job once it has ended, and its attempts."""
    with Crew(stage, beats=0, workers=1, pool=request.param) as crew:
        key = stage.create_tenant(request.param)

        def run(job_type: str, *, keep_up: bool = False, **payload: object) -> tuple[dict, list[dict]]:
            body = {"job_type": job_type, "schedule": {"type": "immediate"}, "payload": payload}
            body["retry_policy"] = {"max_attempts": 1}
            job = stage.call("POST", "/jobs", key=key, body=body)["id"]

            def ended() -> dict | None:
                if keep_up and crew.ended():
                    crew.start("worker1")
                found = stage.call("GET", f"/jobs/{job}/triggers", key=key)["results"]
                return found[0] if found and found[0]["state"] in ("succeeded", "dead") else None

            trigger = wait_until(ended, timeout=90, what=f"{job_type} to end")
            path = f"/triggers/{trigger['id']}/attempts"
            return trigger, stage.call("GET", path, key=key)["results"]

        yield run
        children = [child for pid in crew.pids() for child in psutil.Process(pid).children(recursive=True)]
    # A guard looks for its worker now and then, and ends when the worker is gone.
    wait_until(
        lambda: not any(child.is_running() for child in children),
        timeout=20,
        what="each guard to end with its worker",
    )


class TestAHandlerThatHoldsTheInterpreter:
    def test_past_its_lease_runs_once_and_succeeds(self, ran: Ran) -> None:
        trigger, attempts = ran("test.hogs", seconds=3 * LEASE_SECONDS)
        assert [attempt["state"] for attempt in attempts] == ["succeeded"]
        assert trigger["state"] == "succeeded"

    def test_for_ever_is_ended_from_outside_and_its_worker_goes_on(self, ran: Ran) -> None:
        trigger, attempts = ran("test.hogs_for_ever", keep_up=True)
        assert [(attempt["state"], attempt["error_code"]) for attempt in attempts] == [
            ("timed_out", "timeout")
        ]
        assert "process was ended" in attempts[0]["error_message"]
        assert (trigger["state"], trigger["reason"]) == ("dead", "exhausted")
        assert ran("test.works", keep_up=True)[0]["state"] == "succeeded"
