"""Which jobs a run makes, drawn from its seed: intervals, crons, retries, overlap policies, priorities, deliveries."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from chaos.history import JobMade

ROOMY, TIGHT = 1000, 4
TIMEOUT_SECONDS = 10
RETRY_SECONDS = 1
PRIORITIES = ("critical", "high", "medium", "low")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A job to make; the fields are those of ``history.JobMade``."""

    tenant: str
    name: str
    schedule: dict[str, Any]
    target: str = "ok"
    seconds: float = 0.0
    failures: int = 0
    overlap_policy: str = "allow"
    misfire_policy: str = "fire_all"
    delivery: str = "at_least_once"
    priority: str = "medium"
    max_attempts: int = 5
    fault: str = ""
    job_type: str = "webhook"
    query: dict[str, str] = field(default_factory=dict)
    body: str = ""
    timeout_seconds: float = TIMEOUT_SECONDS
    method: str = ""
    #: In place of the receiver's address.
    host: str = ""
    #: The schedule by which the judge expects it, where that is not the one it is made with.
    expected: dict[str, Any] = field(default_factory=dict)

    def definition(self, *, receiver_url: str) -> dict[str, Any]:
        """The body of ``POST /jobs``."""
        asked = {"target": self.target, "seconds": self.seconds, "failures": self.failures, **self.query}
        if self.host:
            receiver_url = f"http://{self.host}:{receiver_url.rpartition(':')[2]}"
        return {
            "name": self.name,
            "job_type": self.job_type,
            "schedule": self.schedule,
            "payload": {"url": f"{receiver_url}/{self.name}?{urlencode(asked)}"}
            | ({"body": {"text": self.body}} if self.body else {})
            | ({"method": self.method} if self.method else {}),
            "priority": self.priority,
            "timeout_seconds": self.timeout_seconds,
            "retry_policy": retry_policy(self.max_attempts),
            "overlap_policy": self.overlap_policy,
            "max_concurrent": self.most,
            "misfire_policy": self.misfire_policy,
            "delivery": self.delivery,
        }

    @property
    def most(self) -> int:
        return 1000 if self.overlap_policy == "allow" else 1

    def made(self, answer: dict[str, Any], *, at: float) -> JobMade:
        """The line of the history, from the API's answer."""
        return JobMade(
            at=at,
            job_id=answer["id"],
            tenant=self.tenant,
            name=self.name,
            schedule=self.expected or self.schedule,
            created_at=datetime.fromisoformat(answer["created_at"]),
            target=self.target,
            seconds=self.seconds,
            failures=self.failures,
            overlap_policy=self.overlap_policy,
            max_concurrent=self.most,
            misfire_policy=self.misfire_policy,
            delivery=self.delivery,
            priority=self.priority,
            max_attempts=self.max_attempts,
            fault=self.fault,
        )


def retry_policy(max_attempts: int) -> dict[str, Any]:
    """The policy of every job: a second after each failure."""
    return {
        "max_attempts": max_attempts,
        "backoff": "fixed",
        "initial_delay_seconds": RETRY_SECONDS,
        "jitter": "none",
    }


#: The fields in which the kinds of jobs differ; each kind is as likely as the others.
_KINDS: tuple[dict[str, Any], ...] = (
    {"seconds": 0.0},
    {"seconds": 0.2},
    {"seconds": 1.0, "priority": "critical"},
    {"target": "flaky", "failures": 1},
    {"target": "failing", "max_attempts": 2},
    {"target": "refusing"},
    {"target": "dropping", "failures": 1, "method": "PUT"},
    {"delivery": "at_most_once"},
    {"delivery": "exactly_once", "job_type": "chaos.once", "target": "once"},
    {"overlap_policy": "skip", "misfire_policy": "fire_once"},
    {"overlap_policy": "queue", "seconds": 0.5},
    {"overlap_policy": "collapse", "misfire_policy": "fire_once"},
    {"overlap_policy": "replace", "misfire_policy": "fire_once"},
)
#: How long the executions of jobs that may drop firings take, in periods: now and then the next one finds them at work.
_BUSY = (0.4, 1.4)
#: Well within its time-out: a request that is given up is tried again, and the receiver sees it twice.
MAX_SECONDS = 7.0

SHARED_CRON = "*/5 * * * * ?"
SHARED_SECONDS = (0.2, 0.5)


def tenants(count: int) -> dict[str, int]:
    """Caps on triggers in flight by slug; the last tenant reaches its cap."""
    return {f"tenant{n}": TIGHT if n == count else ROOMY for n in range(1, count + 1)}


def plans(
    rng: random.Random, *, tenants: dict[str, int], jobs: int, periods: tuple[int, int]
) -> Iterator[Plan]:
    """``jobs`` jobs in all, whose periods in seconds lie between the two of ``periods``."""
    slugs = list(tenants)
    for n in range(jobs):
        kind = dict(_KINDS[n % len(_KINDS)])
        kind.setdefault("priority", rng.choice(PRIORITIES))
        # A firing that waits for a cap waits rightly: such jobs need not be on time.
        waits = kind.get("overlap_policy") == "queue"
        tenant = slugs[-1] if waits else rng.choice(slugs[:-1] or slugs)
        every = rng.randint(*periods)
        if "seconds" not in kind and kind.get("overlap_policy"):
            every = min(every, periods[0] + 3)
            kind["seconds"] = min(MAX_SECONDS, round(every * rng.uniform(*_BUSY), 1))
        yield Plan(tenant=tenant, name=f"job{n}", schedule=_schedule(rng, every), **kind)


def shared_plans(rng: random.Random, *, tenants: dict[str, int], jobs: int) -> Iterator[Plan]:
    """``jobs`` jobs of the type that both kinds of workers serve; the tenant of every fourth has no pull workers.

    All fall due at once, more than Celery's workers can start: each worker that asks gets a share.
    """
    mine, *others = tenants
    for n in range(jobs):
        yield Plan(
            tenant=others[0] if others and n % 4 == 3 else mine,
            name=f"shared{n}",
            schedule={"type": "cron", "cron": SHARED_CRON, "cron_dialect": "quartz", "timezone": "UTC"},
            seconds=round(rng.uniform(*SHARED_SECONDS), 2),
            job_type="chaos.shared",
            target="flaky" if n % 6 == 5 else "ok",
            failures=int(n % 6 == 5),
        )


def _schedule(rng: random.Random, every: int) -> dict[str, Any]:
    if rng.random() < 0.25 and every < 30:
        return {"type": "cron", "cron": f"*/{every} * * * * ?", "cron_dialect": "quartz", "timezone": "UTC"}
    return {"type": "interval", "every_seconds": every}
