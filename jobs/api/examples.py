"""Examples of requests, for OpenAPI; a test sends each of them."""

from typing import Any

from drf_spectacular.utils import OpenApiExample

_REPORT: dict[str, Any] = {
    "job_type": "webhook",
    "schedule": {"type": "cron", "cron": "0 2 * * *", "timezone": "Asia/Kolkata"},
    "payload": {"url": "https://reports.example/run", "method": "POST", "body": {"kind": "settlement"}},
    "labels": {"env": "prod", "team": "billing"},
    "priority": "high",
    "timeout_seconds": 60,
    "retry_policy": {"max_attempts": 4, "backoff": "exponential", "initial_delay_seconds": 30},
}


def _examples(**values: Any) -> tuple[OpenApiExample, ...]:
    return tuple(
        OpenApiExample(name.replace("_", " "), value=value, request_only=True)
        for name, value in values.items()
    )


CREATE = _examples(
    Every_night={"name": "nightly-report", **_REPORT},
    Every_minute={
        "name": "heartbeat",
        "job_type": "webhook",
        "schedule": {"type": "interval", "every_seconds": 60},
        "payload": {"url": "https://ops.example/heartbeat"},
    },
    Once={
        "job_type": "webhook",
        "schedule": {"type": "once", "run_at": "2090-01-31T09:00:00Z"},
        "payload": {"url": "https://shop.example/remind", "method": "POST", "body": {"order": 4711}},
    },
    At_once={
        "job_type": "webhook",
        "schedule": {"type": "immediate"},
        "payload": {"url": "https://ops.example/now", "method": "GET"},
    },
)
PUT = _examples(Every_night=_REPORT)
PATCH = _examples(
    Another_time={"schedule": {"cron": "30 3 * * *"}},
    One_label_more_and_one_less={"labels": {"tier": "1", "team": None}},
    Back_to_the_default={"timeout_seconds": None},
)
STATUS = _examples(Pause={"status": "paused"}, Resume={"status": "active"})
PAUSE = _examples(
    Until_it_is_resumed={"reason": "The partner is being moved."},
    Until_an_instant={"reason": "The partner is being moved.", "until": "2090-01-31T06:00:00Z"},
)
RUN = _examples(
    As_it_is={}, With_another_payload={"payload": {}}, Beside_one_that_runs={"ignore_overlap": True}
)
PREVIEW = _examples(
    Where_clocks_change={
        "schedule": {"type": "cron", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "dst_policy": "skip"},
        "after": "2027-03-27T00:00:00Z",
        "count": 3,
    }
)
DISMISS = _examples(
    All_that_match={"filter": {"target": "old.example"}, "note": "The partner has closed this service."}
)
REPLAY = _examples(
    Some={"ids": ["01890a5d-ac96-774b-bcce-b302099a8057"]}, All_that_match={"filter": {"reason": "exhausted"}}
)
