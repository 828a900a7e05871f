"""Workflows of a stage, by its API."""

from typing import Any

from stage.waiting import wait_until
from tests.cluster.stage import Stage


def create(stage: Stage, definition: dict[str, Any], *, key: str) -> str:
    """The id of a new workflow."""
    return str(stage.call("POST", "/workflows", key=key, body=definition)["id"])


def begin(stage: Stage, workflow_id: str, *, key: str, run_input: Any = None) -> str:
    body = None if run_input is None else {"input": run_input}
    return str(stage.call("POST", f"/workflows/{workflow_id}/runs", key=key, body=body)["id"])


def run(stage: Stage, definition: dict[str, Any], *, key: str) -> str:
    """Begin the first run of a new workflow."""
    return begin(stage, create(stage, definition, key=key), key=key)


def act(stage: Stage, run_id: str, verb: str, *, key: str) -> Any:
    """Cancel or retry a run."""
    return stage.call("POST", f"/workflow-runs/{run_id}/{verb}", key=key)


def ended(stage: Stage, run_id: str, *, key: str, within: float = 60) -> dict[str, Any]:
    """The run, once it has ended."""

    def shown() -> Any:
        found = stage.call("GET", f"/workflow-runs/{run_id}", key=key)
        return found["state"] != "running" and found

    found: dict[str, Any] = wait_until(shown, timeout=within, what="the run to end")
    return found
