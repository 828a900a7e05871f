"""Telling the receiver of an execution, in the headers of a webhook. Standard library alone."""

import json
import urllib.request
from typing import Any

TIMEOUT_SECONDS = 5.0


def report(
    url: str,
    *,
    job_id: str,
    trigger_id: str,
    scheduled_for: str,
    attempt: int,
    fence: int,
    execution_id: str,
    key: str,
    body: Any = None,
) -> Any:
    """The receiver's answer; raises ``OSError`` when it cannot be reached or answers with an error.

    ``body`` is sent as JSON; None: no body is sent.
    """
    headers = {
        "X-Carillon-Job": job_id,
        "X-Carillon-Trigger": trigger_id,
        "X-Carillon-Scheduled-For": scheduled_for,
        "X-Carillon-Attempt": str(attempt),
        "X-Fence-Token": str(fence),
        "X-Execution-Id": execution_id,
        "Idempotency-Key": key,
    }
    request = urllib.request.Request(
        url, data=b"" if body is None else json.dumps(body).encode(), headers=headers, method="POST"
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        return json.loads(answer.read())
