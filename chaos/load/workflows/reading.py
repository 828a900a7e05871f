"""A run, and each item of its maps, as the API shows them."""

import time
from datetime import datetime
from typing import Any

from chaos.history import RunSeen
from chaos.load.caller import Caller

#: The number of a run that lacks its input; the judge must find that fault.
NO_NUMBER = -1


def read_run(caller: Caller, tenant: str, run_id: str, *, reading: int) -> RunSeen:
    """The line of the history. Raises the errors of ``Caller.call``."""
    run = caller.call(tenant, "GET", f"/workflow-runs/{run_id}")
    tasks, given = {task["task"]: _task(task) for task in run["tasks"]}, run["input"] or {}
    within = (
        {"outer_run_id": run["outer_run_id"], "trigger_id": run["trigger_id"], "input": given}
        if run["outer_run_id"]
        else {}
    )
    for task in run["tasks"]:
        if task["item_count"] is not None:
            tasks[task["task"]]["items"] = _items(caller, tenant, run_id, task["task"], task["item_count"])
    return RunSeen(
        at=time.time(),
        reading=reading,
        run_id=run["id"],
        workflow_id=run["workflow_id"],
        number=given.get("number", NO_NUMBER),
        state=run["state"],
        scheduled_for=datetime.fromisoformat(run["scheduled_for"]),
        finished_at=moment(run["finished_at"]),
        tasks=tasks,
        created_at=moment(run["created_at"]),
        cancel_reason=run["cancel_reason"],
        **within,
    )


def _items(caller: Caller, tenant: str, run_id: str, task: str, count: int) -> list[dict[str, Any]]:
    """The items of a list that fits on a page. An item beyond the count is of a longer list, from an earlier retry."""
    page = caller.call(
        tenant, "GET", f"/workflow-runs/{run_id}/tasks/{task}/items?page_size=200&ordering=item"
    )
    rows = [row for row in page["results"] if row["item"] < count]
    return [_entry(row) | {"item": row["item"], "value": row["value"]} for row in rows]


def _task(row: dict[str, Any]) -> dict[str, Any]:
    inner = {"inner_run_id": row["inner_run_id"]} if row["inner_run_id"] else {}
    return _entry(row) | {"attempts": row["attempt_count"] or 0} | inner


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "state": row["state"],
        "reason": row["reason"],
        "trigger_id": row["trigger_id"] or "",
        "finished_at": moment(row["finished_at"]),
    }


def moment(text: str | None) -> float | None:
    """Seconds since 1970."""
    return datetime.fromisoformat(text).timestamp() if text else None
