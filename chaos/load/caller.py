"""The REST API as a service calls it, and every acknowledged call in the history.

While faults strike, a thread pauses, resumes, runs and cancels jobs. A call whose outcome is unknown is asked again
until it is acknowledged, as a service would: pause, resume and cancel may be repeated. A run is not.
"""

import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Any

from chaos.history import Called, JobMade, Journal, Ledger, Range
from chaos.load.definitions import Plan

TIMEOUT_SECONDS = 8.0
AGAIN_SECONDS = 1.0
TRIES = 10
#: The most ids that one list may name.
MAX_IDS = 100


class Refused(RuntimeError):
    """A call that was answered with a 4xx, ``status``: asking again would change nothing."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


class Caller:
    """Calls with the keys of its tenants."""

    def __init__(self, *, web: str, receiver_url: str, journal: Journal) -> None:
        """``web``: the web process's address and port."""
        self.url = f"http://{web}/api/v1"
        self.receiver_url = receiver_url
        self._journal = journal
        self.keys: dict[str, str] = {}
        #: The API's address for tenants that are not of the stage's own Carillon.
        self.urls: dict[str, str] = {}
        self.made: list[JobMade] = []
        #: While it is set no calls are made: between a call and its effect no clock may be set.
        self.silent = threading.Event()

    def make(self, plan: Plan) -> JobMade:
        """Create a job; raises the errors of ``call``."""
        answer = self.call(plan.tenant, "POST", "/jobs", plan.definition(receiver_url=self.receiver_url))
        return self._note(plan, answer)

    def make_together(self, plans: Sequence[Plan]) -> list[JobMade]:
        """Create jobs of one tenant in one call; raises the errors of ``call``, and if one of the jobs is refused."""
        tenant = plans[0].tenant
        definitions = [plan.definition(receiver_url=self.receiver_url) for plan in plans]
        results = self.call(tenant, "POST", "/jobs/bulk", {"jobs": definitions})["results"]
        if refused := [item for item in results if "id" not in item]:
            raise RuntimeError(f"POST /jobs/bulk: {refused[0]}")
        ids = [item["id"] for item in results]
        pages = [
            self.call(tenant, "GET", f"/jobs?page_size=200&ids={','.join(ids[at : at + MAX_IDS])}")
            for at in range(0, len(ids), MAX_IDS)
        ]
        jobs = {job["id"]: job for page in pages for job in page["results"]}
        return [self._note(plan, jobs[job_id]) for plan, job_id in zip(plans, ids, strict=True)]

    def _note(self, plan: Plan, answer: dict[str, Any]) -> JobMade:
        job = plan.made(answer, at=time.time())
        self._journal.note(job)
        self.made.append(job)
        return job

    def try_to_make(self, plan: Plan) -> str:
        """Create a job that is in no history; returns how that was answered, in ``history.Answered``'s words."""
        try:
            self.call(plan.tenant, "POST", "/jobs", plan.definition(receiver_url=self.receiver_url))
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.headers.get_content_type()}"
        except OSError:
            return "none"
        return "201"

    def ask(self, job: JobMade, verb: str, *, over: threading.Event) -> None:
        """Pause, resume, cancel or run a job, and record the call with its acknowledgement."""
        requested_at, answer = time.time(), None
        while answer is None:
            try:
                answer = self.call(job.tenant, "POST", f"/jobs/{job.job_id}/{verb}")
            except OSError:  # unreachable, too slow, too many at once, or a 5xx: it may have happened
                if verb == "run" or over.wait(AGAIN_SECONDS):
                    break
        self._journal.note(
            Called(
                job_id=job.job_id,
                verb=verb,
                requested_at=requested_at,
                acknowledged_at=None if answer is None else time.time(),
                scheduled_for=datetime.fromisoformat(answer["scheduled_for"])
                if answer and verb == "run"
                else None,
            )
        )

    def cancel(self, tenant: str, job_id: str) -> None:
        """Cancel a job that is in no history, or whose firings are not waited for. Raises the last ``OSError``."""
        for tries_left in reversed(range(TRIES)):
            try:
                self.call(tenant, "POST", f"/jobs/{job_id}/cancel")
                return
            except OSError:  # too slow, perhaps: a job with 100,000 firings is much to cancel
                if not tries_left:
                    raise
                time.sleep(AGAIN_SECONDS)

    @contextmanager
    def busy(self, rng: random.Random) -> Iterator[None]:
        """Call about jobs now and then until the block ends. The end fails if a call was refused."""
        over = threading.Event()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="caller") as beside:
            calls = beside.submit(self._go_on, rng, over)
            try:
                yield
            finally:
                over.set()
        calls.result()

    def _go_on(self, rng: random.Random, over: threading.Event) -> None:
        jobs = [job for job in self.made if job.overlap_policy == "allow" and not job.fault]
        stoppable = rng.sample(jobs, k=max(1, len(jobs) // 4))
        others = [job for job in jobs if job not in stoppable]
        while not over.wait(rng.uniform(1, 4)):
            if self.silent.is_set():
                continue
            verb = rng.choices(("run", "pause", "cancel"), weights=(6, 3, 1))[0]
            if verb == "run" or not stoppable:
                self.ask(rng.choice(others), "run", over=over)
            elif verb == "pause":
                job = rng.choice(stoppable)
                self.ask(job, "pause", over=over)
                over.wait(rng.uniform(2, 6))
                self.ask(job, "resume", over=over)
            else:
                self.ask(stoppable.pop(), "cancel", over=over)

    def read_ledger(self, *, reading: int) -> None:
        """Record every trigger of every job, as the API shows them."""
        for job in self.made:
            path: str | None = f"/jobs/{job.job_id}/triggers?page_size=200"
            while path:
                page = self.call(job.tenant, "GET", path)
                for row in page["results"]:
                    self._journal.note(_entry(row, reading))
                for row in page["skipped_ranges"]:
                    self._journal.note(_range(job.job_id, row))
                path = page["next"] and page["next"].split("/api/v1", 1)[1]

    def call(self, tenant: str, method: str, path: str, body: Any = None, *, key: str = "") -> Any:
        """The answer's JSON; ``key`` is an ``Idempotency-Key``.

        Raises ``OSError`` where it may be asked again: unreachable, too slow, too many at once, a 5xx, or the first
        call of that key is still at work. ``Refused`` where it was refused.
        """
        again = {HTTPStatus.TOO_MANY_REQUESTS, *([HTTPStatus.CONFLICT] if key else [])}
        headers = {"Authorization": f"Bearer {self.keys[tenant]}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            self.urls.get(tenant, self.url) + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers=headers | ({"Idempotency-Key": key} if key else {}),
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in again:
                raise Refused(f"{method} {path}: {error.code} {error.read()[:500]!r}", error.code) from None
            raise


def _entry(row: dict[str, Any], reading: int) -> Ledger:
    return Ledger(
        at=time.time(),
        reading=reading,
        job_id=row["job_id"],
        trigger_id=row["id"],
        scheduled_for=datetime.fromisoformat(row["scheduled_for"]),
        state=row["state"],
        reason=row["reason"],
        fence=row["fence"],
        attempts=row["attempt_count"],
    )


def _range(job_id: str, row: dict[str, Any]) -> Range:
    return Range(
        job_id=job_id,
        from_at=datetime.fromisoformat(row["from_at"]),
        until_at=datetime.fromisoformat(row["until_at"]),
        count=row["count"],
        reason=row["reason"],
    )
