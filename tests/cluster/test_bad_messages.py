"""A queue holds messages that no dispatcher sent: all of them are dropped, and the worker works on."""

import json
from uuid import uuid4

import pytest
import redis

from stage.waiting import wait_until
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster
QUEUE = "jobs.noop"


#: Entries that are not even messages of kombu's.
NO_MESSAGES = (
    b"garbage",
    b"",
    b"\xff\xfe",
    b"7",
    b"null",
    b"[]",
    b"{}",
    b'{"body": 1, "headers": {}, "properties": {}}',
    b'{"body": "", "headers": null, "properties": {"delivery_tag": "x", "delivery_info": {}}}',
    b'{"body": "%", "headers": {}, '
    b'"properties": {"delivery_tag": "x", "delivery_info": {}, "body_encoding": "base64"}}',
    b'{"body": "{", "headers": {}, "properties": {"delivery_tag": "x", "delivery_info": {}}}',
)


def envelope(body: object, *, task: str = QUEUE, **properties: object) -> bytes:
    """A message as kombu puts it into Redis."""
    headers = {"lang": "py", "task": task, "id": str(uuid4())}
    routing = {"exchange": "", "routing_key": QUEUE}
    return json.dumps(
        {
            "body": json.dumps(body),
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": headers,
            "properties": {
                "correlation_id": headers["id"],
                "delivery_mode": 2,
                "delivery_info": routing,
                "priority": 0,
                "delivery_tag": str(uuid4()),
                **properties,
            },
        }
    ).encode()


def bad_messages(trigger_id: str, fence: int) -> list[bytes]:
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    items = [
        "garbage",
        None,
        [["not an id", 1]],
        [[str(uuid4()), 1]],
        [[trigger_id, fence + 1]],
        [[trigger_id, fence - 1], [trigger_id, 2**40], [trigger_id, "1"], {"a": 1}],
    ]
    return [
        *(envelope([[item], {}, embed]) for item in items),
        envelope([[], {}, embed]),
        envelope("no protocol at all"),
        envelope([[[[trigger_id, fence]]], {}, embed], task="jobs.unheard_of"),
        envelope(7),
        envelope([[[[trigger_id, fence]]], "no keywords", embed]),
        envelope({"args": [[[trigger_id, fence]]], "kwargs": {}}),
    ]


class TestBadMessages:
    def test_are_dropped_and_the_worker_works_on(self) -> None:
        with Stage(beats=1, workers=1) as stage:
            key = stage.create_tenant()

            def run(name: str) -> dict:
                body = {"name": name, "job_type": "noop", "schedule": {"type": "immediate"}, "payload": {}}
                job_id = stage.call("POST", "/jobs", key=key, body=body)["id"]

                def ended() -> dict | None:
                    found = stage.call("GET", f"/jobs/{job_id}/triggers", key=key)["results"]
                    return found[0] if found and found[0]["state"] == "succeeded" else None

                return wait_until(ended, timeout=20, what=f"{name} to succeed")

            before = run("before")
            pids = stage.pids("worker")
            broker = redis.Redis.from_url(stage.environment["REDIS_URL"])
            for message in (*NO_MESSAGES, *bad_messages(before["id"], before["fence"])):
                broker.lpush(QUEUE, message)
            run("after")
            wait_until(lambda: broker.llen(QUEUE) == 0, timeout=10, what="the queue to be empty")
            assert stage.pids("worker") == pids
            assert stage.call("GET", f"/triggers/{before['id']}", key=key)["attempt_count"] == 1
            assert stage.query("SELECT count(*) FROM jobs_attempt") == [(2,)]
            log = stage.log_path.read_text()
            assert log.count("message dropped") >= 18
            assert "jobs.unheard_of" in log
