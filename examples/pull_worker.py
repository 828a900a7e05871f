#!/usr/bin/env python3
"""A pull worker in Python's standard library: claims triggers over HTTP, keeps them while it works, completes them.

    CARILLON_URL=http://127.0.0.1:8000 CARILLON_API_KEY=ck_… python examples/pull_worker.py

One trigger at a time; start several for more. On SIGTERM it finishes the trigger that it has claimed."""

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPException

BASE = os.environ.get("CARILLON_URL", "http://127.0.0.1:8000").rstrip("/") + "/api/v1"
KEY = os.environ.get("CARILLON_API_KEY", "")
HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
WAIT_SECONDS = 20
NAME = f"{socket.gethostname()}:{os.getpid()}"
stopping = threading.Event()


class Permanent(Exception):
    """Raise it from a handler when trying again cannot help."""


def word_count(work, still_ours):
    """A handler: the payload in, the result out. ``still_ours`` is False once the trigger was cancelled or lost."""
    words = work["payload"].get("text")
    if not isinstance(words, str):
        raise Permanent("the payload has no text")
    return {"words": len(words.split())} if still_ours() else None


HANDLERS = {"example.word_count": word_count}


def post(path, body, tries=5):
    """The answer's status and JSON. Repeated while the server cannot be reached."""
    request = urllib.request.Request(f"{BASE}{path}", json.dumps(body).encode(), HEADERS)  # noqa: S310
    for left in reversed(range(tries)):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                return error.code, json.load(error)
        except (OSError, HTTPException) as error:
            print(f"cannot reach {BASE}: {error}", file=sys.stderr)
        time.sleep(2 if left else 0)
    return 0, {}


def keep(token, seconds, done, lost, once=False):
    """Send heartbeats until ``done``, or one; fill ``lost`` when the trigger is cancelled, timed out or lost."""
    while not (lost or done.wait(seconds)):
        _, answer = post("/worker/heartbeat", {"triggers": [token]}, tries=1)
        lost += [each["status"] for each in answer.get("triggers", []) if each["status"] != "held"]
        if once:
            return


def run(work, lease_seconds, late):
    """Call the handler and report its outcome. A stale fence (409) means that another worker has the trigger now."""
    token = {"trigger_id": work["trigger_id"], "fence": work["fence"]}
    done, lost = threading.Event(), []
    if late and (keep(token, 0, done, lost, once=True) or lost):
        return
    threading.Thread(target=keep, args=(token, lease_seconds / 3, done, lost), daemon=True).start()
    try:
        result = HANDLERS[work["job_type"]](work, lambda: not lost)
        report = {"outcome": "succeeded", "result": result}
    except Exception as error:  # noqa: BLE001 - any exception of a handler is its failure
        what = {"message": str(error), "kind": type(error).__name__}
        report = {"outcome": "failed", "error": what, "permanent": isinstance(error, Permanent)}
    done.set()
    report = {"outcome": "cancelled"} if lost == ["cancel"] else report
    status, answer = post("/worker/complete", token | report)
    print(work["job_name"], report["outcome"], status, answer.get("detail", ""), flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    ask = {"worker": NAME, "job_types": list(HANDLERS), "capacity": 1, "wait_seconds": WAIT_SECONDS}
    while not stopping.is_set():
        asked_at = time.monotonic()
        status, answer = post("/worker/claim", ask, tries=1)
        for work in answer.get("triggers", []):  # their lease may be over, if the answer was long on its way
            run(work, answer["lease_seconds"], time.monotonic() - asked_at > WAIT_SECONDS + 5)
        if status != 200:
            print(f"claim answered {status}: {answer}", file=sys.stderr)
            stopping.wait(5)


if __name__ == "__main__":
    main()
