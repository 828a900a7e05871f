"""The plan of every named query: none may read the whole of a big table, whatever the planner knows of it.

Bulk loads, restores and bursts leave statistics behind the truth for minutes; a statement that then turns to reading a
table from end to end takes the scheduler down just when it is busiest. So each is explained over a ledger that was
analyzed, never analyzed, and analyzed while it looked quite different.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs.models import CatchUp, Job, JobVersion, SkippedRange, Trigger
from jobs.models.fields import first_id_since, new_id
from jobs.store import db
from tests import factories
from tests.store.conftest import make_new

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

COUNTS = ("jobs_activityminute", "jobs_activityhour")
PASTS = ("jobs_answer", "jobs_catchup", "jobs_skippedrange", "jobs_jobversion", "jobs_change", *COUNTS)
BIG = ("jobs_trigger", "jobs_job", "jobs_attempt", *PASTS)
JOBS, TRIGGERS, TENANTS = 5_000, 20_000, 20
#: Of every hundred triggers: most have ended, as in any ledger that has run for a while.
MIXED = {"pending": 8, "retrying": 2, "queued": 2, "running": 3, "succeeded": 70, "dead": 5, "skipped": 10}
#: Columns in which one bulk trigger differs from the next.
OWN_COLUMNS = {
    "id",
    "job_id",
    "tenant_id",
    "state",
    "reason",
    "scheduled_for",
    "due_at",
    "idempotency_key",
} | {
    "queued_at",
    "lease_expires_at",
    "finished_at",
}


@dataclass(frozen=True)
class Sample:
    """What the parameters of a call are made of: a hundred triggers and jobs of a ledger, or none."""

    ids: list[UUID]
    job_ids: list[UUID]
    tenant_ids: list[int]
    now: datetime

    def some(self, value: Any) -> list[Any]:
        return [value] * len(self.ids)


#: What a person asks for now and then may be slow for the minute until statistics catch up with a bulk load.
COLD = {"lifecycle.replay"}
FEED = {"events.first", "events.page", "notices.read"}
LEADERSHIP = {"term": 1}
LEASE = {"holder": "one", "duration": timedelta(seconds=10)}
HOUR = timedelta(hours=1)


def one(values: list[Any]) -> Any:
    return values[0] if values else UUID(int=1)


def lanes(sample: Sample) -> dict[str, Any]:
    return {
        "tenant_ids": sample.tenant_ids,
        "job_types": ["noop"] * len(sample.tenant_ids),
        "priorities": [2] * len(sample.tenant_ids),
        "floors": [sample.now - HOUR] * len(sample.tenant_ids),
    }


def recoveries(sample: Sample) -> dict[str, Any]:
    return {
        "ids": sample.ids,
        "fences": sample.some(1),
        "states": sample.some("retrying"),
        "reasons": sample.some(""),
        "delays": sample.some(HOUR),
        "charged": sample.some(True),
    }


def window(sample: Sample) -> dict[str, Any]:
    return {
        "after_xid": "7",
        "after_id": 1,
        "before_xid": "1000000",
        "since": str(sample.now - 24 * HOUR),
        "until": "infinity",
    }


#: Every query of the store with parameters such as the engine gives it.
PARAMETERS: dict[str, Callable[[Sample], dict[str, Any]]] = {
    "activity.add_own": lambda s: {
        "rows": '[{"name": "step_failures", "labels": ["reap"], "kind": "times", "count": 1}]'
    },
    "activity.add": lambda s: {
        "rows": '[{"tenant_id": 1, "job_type": "noop", "started": 1}]',
        "declared_types": "declared@tenants",
    },
    # Hours from the edges of what fill() counted and of a day's partition: of those an hour may be the whole.
    "activity.roll_up": lambda s: {"hour": s.now.replace(minute=0, second=0, microsecond=0) - 6 * HOUR},
    "activity.next_hour": lambda s: {"grace": HOUR},
    "activity.retried_most": lambda s: {
        "tenant_ids": s.tenant_ids,
        "job_type": "",
        "since": s.now - 2160 * HOUR,
        "until": s.now,
        "by_minute": False,
        "limit": 10,
    },
    "activity.of_tenants": lambda s: {
        "tenant_ids": s.tenant_ids[:1] or [1],
        "job_type": "",
        "since": s.now - 2160 * HOUR,
        "until": s.now,
        "by_minute": False,
        "bucket_seconds": 86_400,
        "limit": 190,
    },
    "activity.purge_minute": lambda s: {"before": s.now - 48 * HOUR},
    "activity.purge_hour": lambda s: {"before": s.now - 2400 * HOUR},
    "activity.busiest": lambda s: {"minutes": 5, "limit": 40},
    "activity.name_tenants": lambda s: {"tenant_ids": s.tenant_ids},
    "activity.unname_tenants": lambda s: {"tenant_ids": s.tenant_ids},
    "answers.take_key": lambda s: {"lock": 1},
    "answers.find": lambda s: {"tenant_id": 1, "key": "k1", "kept_for": HOUR},
    "answers.kept_bytes": lambda s: {"tenant_id": 1},
    "answers.keep": lambda s: {
        "tenant_id": 1,
        "key": "k1",
        "fingerprint": b"x",
        "status": 201,
        "headers": "{}",
        "body": b"{}",
    },
    "answers.purge": lambda s: {"kept_for": HOUR, "limit": 1000},
    "catchup.begin": lambda s: {
        "ids": s.ids,
        "job_ids": s.ids,
        "tenant_ids": s.some(1),
        "job_versions": s.some(1),
        "origins": s.some("outage"),
        "policies": s.some("skip"),
        "reasons": s.some(""),
        "windows": s.some(HOUR),
        "max_catchups": s.some(100),
        "from_ats": s.some(s.now),
        "until_ats": s.some(s.now),
        "expecteds": s.some(None),
        "traces": s.some(None),
    },
    "catchup.absorb": lambda s: {"job_ids": s.job_ids, "grace_ends": [s.now] * len(s.job_ids)},
    "catchup.take_undecided": lambda s: {**LEADERSHIP, "after": UUID(int=0), "limit": 100},
    "catchup.waiting": lambda s: {},
    "catchup.take_decided": lambda s: {
        **LEADERSHIP,
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "after": UUID(int=0),
        "backlog": 10,
        "limit": 100,
    },
    "catchup.recorded": lambda s: {
        "job_ids": s.job_ids,
        "from_ats": [s.now - HOUR] * len(s.job_ids),
        "until_ats": [s.now] * len(s.job_ids),
        "limit": 1000,
    },
    "catchup.skip": lambda s: {
        "ids": s.ids,
        "job_ids": s.ids,
        "tenant_ids": s.some(1),
        "job_types": s.some("noop"),
        "job_versions": s.some(1),
        "scheduled_fors": s.some(s.now),
        "reasons": s.some("misfire"),
        "priorities": s.some(2),
        "idempotency_keys": s.some("key"),
    },
    "catchup.skip_range": lambda s: {
        "ids": s.ids,
        "job_ids": s.ids,
        "tenant_ids": s.some(1),
        "job_versions": s.some(1),
        "from_ats": s.some(s.now - HOUR),
        "until_ats": s.some(s.now),
        "counts": s.some(5),
        "reasons": s.some("misfire"),
        "floors": s.some(s.now - HOUR),
    },
    "catchup.advance": lambda s: {
        "ids": s.ids,
        "cursors": s.some(s.now),
        "tails": s.some("{}"),
        "fireds": s.some(0),
        "skippeds": s.some(5),
        "dones": s.some(True),
    },
    "catchup.end_jobs": lambda s: {"job_ids": s.job_ids},
    "catchup.end_backfill": lambda s: {"id": one(s.ids), "job_id": one(s.job_ids)},
    "catchup.give_up": lambda s: {"ids": s.ids},
    "clocks.compare": lambda s: {
        "name": "w1",
        "offset": 0.1,
        "within": 0.01,
        "rate_limit_bypassed": 0,
        "version": "1.0",
    },
    "clocks.present": lambda s: {"silence": HOUR, "limit": 1000},
    "dispatch.news": lambda s: {"since": s.now - timedelta(seconds=2)},
    "dispatch.sweep": lambda s: {"tenant_id": -1, "job_type": "", "priority": 0, "limit": 200},
    "dispatch.bound": lambda s: {"milliseconds": 500},
    "dispatch.tenants": lambda s: {"ids": s.tenant_ids},
    "dispatch.lock_tenants": lambda s: {**LEADERSHIP, "ids": s.tenant_ids},
    "dispatch.in_flight_since": lambda s: {"since": s.now - timedelta(seconds=15)},
    "dispatch.in_flight_between": lambda s: {"since": s.now - timedelta(seconds=20), "until": s.now},
    "dispatch.in_flight_of": lambda s: {"ids": s.ids, "until": s.now},
    "dispatch.in_flight_of_tenants": lambda s: {"tenant_ids": s.tenant_ids},
    "dispatch.candidates": lambda s: {**lanes(s), "counts": [100] * len(s.tenant_ids)},
    "dispatch.facts": lambda s: {
        "job_ids": s.job_ids,
        "due_ats": [s.now - HOUR] * len(s.job_ids),
        "jitters": [timedelta()] * len(s.job_ids),
    },
    "dispatch.skip_missed": lambda s: {
        "job_ids": s.job_ids,
        "keep_froms": [s.now - HOUR] * len(s.job_ids),
        "policies": ["skip", "fire_once"],
        "too_old": ["misfire", "misfire"],
        "passed_over": ["misfire", "coalesced"],
        "limit": 1000,
    },
    "dispatch.floors": lambda s: lanes(s),
    "dispatch.waiting": lambda s: {**lanes(s), "limit": 20},
    "dispatch.move": lambda s: {"ids": s.ids},
    "dispatch.freeze": lambda s: {
        "tenant_ids": s.tenant_ids,
        "job_types": ["noop"] * len(s.tenant_ids),
        "priorities": [2] * len(s.tenant_ids),
        "limit": 1000,
    },
    "dispatch.dispatch": lambda s: {"ids": s.ids},
    "dispatch.skip": lambda s: {"ids": s.ids, "reasons": s.some("misfire")},
    "lists.waiting": lambda s: {
        "since": s.now - 1000 * HOUR,
        "until": s.now,
        "limit": 100,
        "lanes": 2000,
        "first_tenant": 0,
        "last_tenant": 2**63 - 1,
        "tenant_ids": s.tenant_ids or None,
        "job_type": None,
    },
    "lists.labelled": lambda s: {
        "tenant_ids": s.tenant_ids,
        "key": "env",
        "value": "prod",
        "each": 500,
        "limit": 10_000,
    },
    "lists.at_rest": lambda s: {
        "tenant_ids": s.tenant_ids,
        "status": "paused",
        "each": 500,
        "limit": 10_000,
    },
    "lists.failures": lambda s: {
        "since": s.now - 1000 * HOUR,
        "tenant_ids": None,
        "limit": 500,
        "groups": 100,
        "tenant_id": None,
        "job_type": None,
        "error_code": None,
        "http_status": None,
        "target": None,
    },
    "lists.named": lambda s: {
        "tenant_ids": s.tenant_ids,
        "first": "bulk",
        "beyond": "bulkz",
        "each": 500,
        "limit": 10_000,
    },
    "lists.latest_firings": lambda s: {"job_ids": s.job_ids, "each": 12},
    "messages.put": lambda s: {"job_types": ["noop"], "items": ["[]"]},
    "messages.take": lambda s: {"job_types": ["noop", "webhook"]},
    "messages.forget": lambda s: {"age": HOUR, "limit": 1000},
    "partitions.partitions": lambda s: {"table": "jobs_attempt"},
    "partitions.may_partition": lambda s: {"table": "jobs_attempt"},
    "overview.in_flight": lambda s: {"tenant_ids": None, "limit": 1000},
    "overview.due": lambda s: {
        "tenant_ids": s.tenant_ids,
        "job_types": ["noop"] * len(s.tenant_ids),
        "priorities": [2] * len(s.tenant_ids),
        "limit": 1000,
    },
    "overview.dispatched": lambda s: {"tenant_ids": s.tenant_ids},
    "overview.breakers": lambda s: {"tenant_ids": None, "limit": 5},
    "overview.troubles": lambda s: {"tenant_ids": None, "limit": 5000},
    "parking.hold": lambda s: {"ids": s.ids},
    "parking.behind": lambda s: {"after": UUID(int=0), "limit": 100},
    "parking.show": lambda s: {"job_ids": s.job_ids, "rooms": s.some(1)},
    "parking.park": lambda s: {"ids": s.ids},
    "parking.collapse": lambda s: {"job_ids": s.job_ids[:5], "scheduled_fors": [s.now] * 5},
    "parking.replace_runs": lambda s: {"job_ids": s.job_ids[:5]},
    "parking.replace": lambda s: {"ids": s.ids[:5], "job_ids": s.job_ids[:5]},
    "parking.park_until": lambda s: {"ids": s.ids, "waits": s.some(HOUR)},
    "parking.unpark": lambda s: {"limit": 1000},
    "breakers.find": lambda s: {"tenant_ids": s.tenant_ids, "targets": ["x.example"] * len(s.tenant_ids)},
    "breakers.patience": lambda s: {},
    "breakers.bound": lambda s: {"patience": "50ms"},
    "breakers.open": lambda s: {
        "tenant_ids": s.tenant_ids[:1],
        "targets": ["x.example"] * len(s.tenant_ids[:1]),
        "most": 1000,
    },
    "breakers.lock": lambda s: {"tenant_ids": s.tenant_ids, "targets": ["x.example"] * len(s.tenant_ids)},
    "breakers.write": lambda s: {
        "ids": [1],
        "states": ["closed"],
        "failures": [1],
        "successes": [1],
        "window_ends_ats": [s.now],
        "openings": [0],
        "probe_ats": [None],
    },
    "breakers.probe": lambda s: {
        "ids": [1],
        "states": ["open"],
        "probe_ids": [None],
        "trigger_ids": [UUID(int=1)],
        "untils": [s.now],
    },
    "breakers.purge": lambda s: {"idle": HOUR, "limit": 1000},
    "targets.rules": lambda s: {},
    "targets.lock_rules": lambda s: {},
    "targets.put": lambda s: {
        "pattern": "api.example.com",
        "regex": "^x$",
        "rate_per_second": 5.0,
        "max_in_flight": None,
        "paused": False,
        "by": "",
        "reason": "",
    },
    "targets.remove": lambda s: {"pattern": "api.example.com"},
    "targets.note_change": lambda s: {"pattern": "api.example.com"},
    "targets.changes": lambda s: {},
    "targets.forget_changes": lambda s: {"version": 1},
    "targets.park_for": lambda s: {
        "ids": s.ids,
        "targets": s.some("api.example.com"),
        "waits": s.some(HOUR),
    },
    "targets.waiting": lambda s: {"target": "", "tenant_id": 0, "limit": 100},
    "targets.show": lambda s: {
        "targets": ["api.example.com"] * len(s.tenant_ids),
        "tenant_ids": s.tenant_ids,
        "rooms": [10] * len(s.tenant_ids),
    },
    "targets.lock_targets": lambda s: {"targets": ["api.example.com"]},
    "targets.in_flight": lambda s: {"targets": ["api.example.com"]},
    "targets.rated": lambda s: {"after": s.now, "after_id": UUID(int=0), "limit": 100},
    "targets.hurry": lambda s: {"ids": s.ids},
    "notices.open": lambda s: {},
    "notices.take": lambda s: {},
    "notices.read": lambda s: {**window(s), "limit": 100, "kinds": ["trigger.dead"]},
    "notices.keep": lambda s: {"xid": "7", "event_id": 1},
    "notices.send": lambda s: {
        "ids": s.ids,
        "job_ids": s.ids,
        "idempotency_keys": s.some("notice:7-1"),
        "payloads": s.some("{}"),
    },
    "notices.dying": lambda s: {"ids": s.job_ids, "counts": [5] * len(s.job_ids)},
    "notices.pause_dying": lambda s: {"ids": s.job_ids},
    "pull.offer": lambda s: {
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "job_types": ["noop", "webhook"],
        "limit": 100,
    },
    "pull.lock": lambda s: {"ids": s.ids, "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1},
    "pull.held": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
    },
    "pull.keep_output": lambda s: {
        "attempt_ids": s.ids,
        "attempt_started_ats": s.some(s.now),
        "first_started_at": s.now - HOUR,
        "last_started_at": s.now,
        "outputs": s.some("said"),
    },
    "pull.keep_type": lambda s: {"job_type": "noop@1"},
    "queues.lock": lambda s: {"job_types": ["noop", "webhook"], "every": HOUR},
    "queues.open": lambda s: {"job_types": ["noop", "webhook"], "window": 5},
    "queues.measure": lambda s: {
        "job_types": ["noop", "webhook"],
        "queued": [7, 0],
        "minimum": 16,
        "maximum": 1000,
        "wait_seconds": 1.0,
        "stale": HOUR,
    },
    "queues.note_dispatched": lambda s: {"job_types": ["noop", "webhook"], "counts": [5, 1]},
    "dispatch.cancel": lambda s: {"ids": s.ids, "reasons": s.some("superseded")},
    "effects.record": lambda s: {"trigger_id": one(s.ids), "key": "charge", "fence": 1},
    "effects.count_duplicate": lambda s: {"trigger_id": one(s.ids), "key": "charge"},
    "effects.duplicates": lambda s: {"trigger_id": one(s.ids)},
    "events.note": lambda s: {"ids": s.ids},
    "events.note_ranges": lambda s: {
        "job_ids": s.job_ids,
        "tenant_ids": [1] * len(s.job_ids),
        "from_ats": [s.now - HOUR] * len(s.job_ids),
        "until_ats": [s.now] * len(s.job_ids),
        "counts": [5] * len(s.job_ids),
        "reasons": ["misfire"] * len(s.job_ids),
    },
    "events.page": lambda s: {
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        **window(s),
        "limit": 100,
    },
    "events.first": window,
    "events.horizon": lambda s: {},
    "events.mark": lambda s: {},
    "events.forget_marks": lambda s: {"retention": HOUR},
    "events.window": lambda s: {"after_xid": "7", "span": 384 * HOUR, "room": 24 * HOUR},
    "execution.claim": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "job_types": ["noop"],
        "attempt_ids": [new_id() for _ in s.ids],
        "worker": "w1",
        "celery_task_id": "c1",
        "lease": HOUR,
        "crowded": ["crowd"],
        "waiting": [],
    },
    "execution.adopt": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "attempt_ids": [new_id() for _ in s.ids],
        "lease": HOUR,
    },
    "execution.hand_back": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "crowded": ["crowd"],
        "waiting": [],
        "wait": HOUR,
        "job_types": ["noop"],
    },
    "execution.renew": lambda s: {"ids": s.ids, "fences": s.some(1), "lease": HOUR},
    "execution.note_stopping": lambda s: {"ids": s.ids, "fences": s.some(1)},
    "execution.note_progress": lambda s: {"id": one(s.ids), "fence": 1, "progress": "{}", "checkpoint": None},
    "execution.succeed": lambda s: {
        "id": one(s.ids),
        "fence": 1,
        "attempt_id": one(s.ids),
        "attempt_started_at": s.now,
        "result": None,
        "http_status": 200,
        "response_excerpt": "",
        "output": None,
    },
    "execution.finish": lambda s: {
        "ids": s.ids,
        "fences": s.some(1),
        "attempt_ids": s.ids,
        "attempt_started_ats": s.some(s.now),
        "first_started_at": s.now - HOUR,
        "last_started_at": s.now,
        "states": s.some("succeeded"),
        "delays": s.some(HOUR),
        "results": s.some(None),
        "attempt_states": s.some("succeeded"),
        "http_statuses": s.some(200),
        "outputs": s.some("said"),
        **{
            name: s.some("")
            for name in (
                "reasons",
                "error_codes",
                "error_classes",
                "error_messages",
                "tracebacks",
                "response_excerpts",
            )
        },
    },
    "execution.pause_gone": lambda s: {"trigger_ids": s.ids},
    "explain.trigger_facts": lambda s: {
        "id": one(s.ids),
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "most": 10_000,
        "most_ahead": 1000,
        "least_urgent": 1,
        "named": 10,
        "silence": HOUR,
    },
    "explain.line": lambda s: {
        "id": one(s.ids),
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "most": 10_000,
        "limit": 1000,
    },
    "explain.pace": lambda s: {"tenant_id": s.tenant_ids[0] if s.tenant_ids else 1, "job_type": "noop"},
    "explain.job_facts": lambda s: {
        "job_id": one(s.job_ids),
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "limit": 10_000,
    },
    "find.names": lambda s: {
        "tenant_ids": s.tenant_ids,
        "prefix": "bulk-1",
        "beyond": "bulk-1" + chr(0x10FFFF),
        "limit": 11,
    },
    "forecast.in_minute": lambda s: {
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "minute": s.now + HOUR,
        "most": 5_000,
    },
    "forecast.jobs_after": lambda s: {"after": one(s.job_ids), "limit": 500},
    "forecast.jobs_of_tenants": lambda s: {"tenant_ids": s.tenant_ids[:1], "limit": 2_001},
    "forecast.next_jobs": lambda s: {"tenant_ids": s.tenant_ids, "limit": 200, "most": 5_000},
    "forecast.pace": lambda s: {"tenant_ids": s.tenant_ids, "minutes": 60},
    "purge.triggers": lambda s: {"before_id": UUID(int=1 << 100), "retention": HOUR, "limit": 1000},
    "purge.results": lambda s: {"retention": HOUR, "limit": 1000},
    "purge.sessions": lambda s: {"limit": 1000},
    "purge.catchups": lambda s: {"before_id": UUID(int=1 << 100), "retention": HOUR, "limit": 1000},
    "purge.ranges": lambda s: {"before_id": UUID(int=1 << 100), "retention": HOUR, "limit": 1000},
    "purge.effects": lambda s: {"before_id": UUID(int=1 << 100), "limit": 1000},
    "purge.versions": lambda s: {
        "after_job_id": one(s.job_ids),
        "after_valid_from": s.now,
        "after_id": UUID(int=0),
        "retention": HOUR,
        "limit": 1000,
    },
    "execution.store_result": lambda s: {
        "task_id": "a",
        "task_name": "jobs.noop",
        "worker": "w1",
        "status": "SUCCESS",
        "result": "{}",
        "traceback": None,
        "task_args": None,
    },
    "jobs.take_due": lambda s: {**LEADERSHIP, "look_ahead": HOUR, "limit": 500, "ids": None, "zoned": True},
    "jobs.peek_due": lambda s: {"look_ahead": HOUR, "limit": 10_000, "fresh": 1000},
    "jobs.materialize": lambda s: {
        "ids": s.ids,
        "job_ids": s.ids,
        "tenant_ids": s.some(1),
        "job_types": s.some("noop"),
        "job_versions": s.some(1),
        "origins": s.some("schedule"),
        "scheduled_fors": s.some(s.now),
        "due_ats": s.some(s.now),
        "priorities": s.some(2),
        "idempotency_keys": s.some("key"),
        "traces": [],
        "announce": True,
    },
    "jobs.advance": lambda s: {"ids": s.job_ids, "next_fire_ats": [s.now] * len(s.job_ids)},
    "jobs.set_status": lambda s: {
        "ids": s.job_ids,
        "next_fire_ats": [s.now] * len(s.job_ids),
        "updated_ats": [s.now] * len(s.job_ids),
        "status": "paused",
        "reason": "why",
        "paused_until": s.now,
        "ended": False,
        "keep_ended": HOUR,
    },
    "jobs.pauses_over": lambda s: {"but": s.tenant_ids[:1], "limit": 250},
    "jobs.hold_paused": lambda s: {"ids": s.job_ids},
    "jobs.end_of_pause_refused": lambda s: {"id": one(s.job_ids), "reason": "why"},
    "jobs.note_versions": lambda s: {"ids": s.job_ids},
    "jobs.pause_broken": lambda s: {"id": one(s.job_ids), "reason": "why"},
    "jobs.insert": lambda s: {
        "rows": f'[{{"id": "{one(s.job_ids)}", "tenant_id": 1, "name": "n"}}]',
        "actor": "",
        "common": "{}",
        "firings": f'[{{"id": "{one(s.ids)}", "job_id": "{one(s.job_ids)}"}}]',
    },
    "jobs.edit": lambda s: {"rows": f'[{{"id": "{one(s.job_ids)}", "priority": 1, "version": 2}}]'},
    "jobs.before_creation": lambda s: {"tenant_id": 1, "job_type": "team.own"},
    "jobs.living": lambda s: {"tenant_id": 1},
    "jobs.complete": lambda s: {"after": UUID(int=0), "limit": 1000, "keep_ended": HOUR},
    "jobs.expire": lambda s: {"limit": 1000, "again": HOUR},
    "jobs.purge": lambda s: {"after": s.now - 9000 * HOUR, "retention": HOUR, "limit": 1000},
    "leases.take": lambda s: {**LEASE, "idle": timedelta(seconds=5)},
    "leases.renew": lambda s: {**LEASE, **LEADERSHIP},
    "leases.release": lambda s: {**LEADERSHIP, "holder": "one"},
    "levers.know_installation": lambda s: {},
    "levers.stop": lambda s: {"by": "olga", "reason": "why"},
    "levers.start": lambda s: {},
    "levers.pause_type": lambda s: {"job_type": "noop", "by": "olga", "reason": "why"},
    "levers.resume_type": lambda s: {"job_type": "noop"},
    "levers.cap_type": lambda s: {"job_type": "noop", "max_in_flight": 4},
    "levers.types": lambda s: {"job_types": ["noop", "webhook"], "others": True},
    "lifecycle.lock_tenant": lambda s: {"tenant_id": 1},
    "lifecycle.weigh": lambda s: {"job_ids": s.job_ids, "most": 2_500},
    "lifecycle.hand_back_jobs": lambda s: {"job_ids": s.job_ids},
    "lifecycle.hold_jobs": lambda s: {"job_ids": s.job_ids, "held": True},
    "lifecycle.paused_since": lambda s: {"job_ids": s.job_ids},
    "lifecycle.skip_paused": lambda s: {
        "job_ids": s.job_ids,
        "paused_ats": [s.now] * len(s.job_ids),
        "over_ats": [s.now] * len(s.job_ids),
    },
    "lifecycle.withdraw_future": lambda s: {"job_ids": s.job_ids, "now": s.now},
    "lifecycle.restamp": lambda s: {
        "job_ids": s.job_ids,
        "versions": [2] * len(s.job_ids),
        "priorities": [1] * len(s.job_ids),
        "job_types": ["noop"] * len(s.job_ids),
    },
    "lifecycle.cancel_jobs": lambda s: {"job_ids": s.job_ids},
    "lifecycle.cancel": lambda s: {"ids": s.ids, "tenant_id": 1},
    "lifecycle.replay": lambda s: {"ids": s.ids, "tenant_id": 1, "trace": None},
    "lifecycle.dismiss": lambda s: {"ids": s.ids, "tenant_id": 1, "by": "root", "note": "Mended since."},
    "metrics.in_flight": lambda s: {},
    "metrics.due": lambda s: {"lanes": 100, "limit": 1_000},
    "metrics.parked": lambda s: {"limit": 2_000},
    "metrics.totals": lambda s: {},
    "metrics.own": lambda s: {},
    "metrics.ahead": lambda s: {"limit": 1_000, "runs": 10_000, "tasks": 20_000},
    "metrics.messages": lambda s: {"limit": 10_000},
    "metrics.past_retention": lambda s: {"before_id": UUID(int=1 << 100), "retention": HOUR, "limit": 2_000},
    "metrics.partitions_ahead": lambda s: {"tables": ["jobs_attempt"]},
    "metrics.connections": lambda s: {},
    "metrics.levers": lambda s: {"limit": 100},
    "metrics.queues": lambda s: {},
    "metrics.leases": lambda s: {"limit": 1000},
    "operations.begin": lambda s: {
        "id": new_id(),
        "tenant_id": 1,
        "verb": "pause",
        "filter": "{}",
        "changes": None,
        "reason": "",
        "expected": None,
        "all_or_nothing": False,
        "per_second": None,
        "asked_by": None,
        "trace": None,
        "most": 10,
    },
    "operations.take": lambda s: {},
    "operations.wait": lambda s: {},
    "operations.note": lambda s: {
        "id": one(s.ids),
        "cursor": one(s.ids),
        "done": 1,
        "items": 1,
        "paced_from": None,
        "refused": 0,
        "refusals": "[]",
        "most": 20,
        "ends": False,
    },
    "operations.note_checked": lambda s: {
        "id": one(s.ids),
        "cursor": one(s.ids),
        "items": 1,
        "refused": 0,
        "refusals": "[]",
        "most": 20,
        "ends": True,
    },
    "operations.note_reason": lambda s: {"ids": s.job_ids, "reason": "why"},
    "operations.pause": lambda s: {"id": one(s.ids), "tenant_id": 1},
    "operations.resume": lambda s: {"id": one(s.ids), "tenant_id": 1},
    "operations.postpone": lambda s: {"id": one(s.ids)},
    "operations.cancel": lambda s: {"id": one(s.ids), "tenant_id": 1},
    "operations.purge": lambda s: {"before_id": UUID(int=1 << 100), "retention": HOUR, "limit": 1000},
    "outcomes.latest": lambda s: {"job_id": one(s.job_ids), "attempts": 1000, "most": 100},
    "outcomes.statistics": lambda s: {
        "job_id": one(s.job_ids),
        "since": s.now - HOUR,
        "until": s.now,
        "slice": timedelta(minutes=5),
        "slices": 12,
        "slices_a_bucket": 12,
        "limit": 301,
        "smallest": 0.001,
        "ratio": 1.1,
    },
    "reap.expired_leases": lambda s: {"limit": 500},
    "reap.in_hand": lambda s: {"ids": s.ids, "fences": s.some(1)},
    "reap.absolve": lambda s: {"ids": s.ids, "fences": s.some(1)},
    "reap.reap_running": lambda s: {**LEADERSHIP, **recoveries(s)},
    "reap.give_up": lambda s: {
        **recoveries(s),
        "suspects": s.some(True),
        "attempt_states": s.some("lost"),
        "error_codes": s.some("timeout"),
        "error_messages": s.some("stuck"),
        "outputs": s.some(None),
    },
    "reap.reap_queued": lambda s: {**LEADERSHIP, "deadline": timedelta(seconds=30), "limit": 500},
    "workflows.insert_graph": lambda s: {
        "version_id": UUID(int=1),
        "numbers": [],
        "keys": [],
        "job_ids": [],
        "needs_all": [],
        "incoming": [],
        "waits": [],
        "maps_over": [],
        "map_parallel": [],
        "befores": [],
        "afters": [],
        "conditions": [],
    },
    "workflows.begin": lambda s: {
        "id": UUID(int=1),
        "workflow_id": UUID(int=1),
        "version_id": UUID(int=1),
        "ids": s.ids,
        "input": "{}",
        "scheduled_for": s.now,
        "origin": "schedule",
        "trigger_id": one(s.ids),
        "trace": None,
        "task_start": None,
        "depth": 0,
        "root_id": None,
    },
    "workflows.firing": lambda s: {"id": one(s.ids), "fence": 1},
    "workflows.run_of_instant": lambda s: {"workflow_id": UUID(int=1), "scheduled_for": s.now},
    "workflows.due_cancels": lambda s: {"limit": 100},
    "workflows.cancels_done": lambda s: {"ids": s.ids, "ats": s.some(s.now)},
    "workflows.bound": lambda s: {"id": UUID(int=1)},
    "workflows.settle": lambda s: {"id": UUID(int=1)},
    "workflows.started": lambda s: {"id": UUID(int=1)},
    "workflows.begin_cancel": lambda s: {"id": UUID(int=1), "tenant_id": 1, "reason": "requested"},
    "workflows.cancel_waiting": lambda s: {"id": UUID(int=1)},
    "workflows.cancel_inner": lambda s: {"id": UUID(int=1)},
    "workflows.inner": lambda s: {"id": one(s.ids), "fence": 1, "name": "load", "most_below": 10_000},
    "workflows.pause": lambda s: {"id": UUID(int=1), "tenant_id": 1},
    "workflows.resume": lambda s: {"id": UUID(int=1), "tenant_id": 1},
    "workflows.begin_retry": lambda s: {
        "id": UUID(int=1),
        "tenant_id": 1,
        "names_tasks": False,
        "trace": None,
    },
    "workflows.answer": lambda s: {
        "id": UUID(int=1),
        "tenant_id": 1,
        "type": "signal",
        "name": "paid",
        "result": None,
        "refused": False,
    },
    "workflows.pass_over": lambda s: {"id": UUID(int=1), "version_id": UUID(int=1), "tasks": ["load"]},
    "workflows.reset": lambda s: {
        "id": UUID(int=1),
        "version_id": UUID(int=1),
        "tasks": ["load"],
        "passed": [1],
    },
    "workflows.unknown_tasks": lambda s: {"version_id": UUID(int=1), "tasks": ["load"]},
    "workflows.task_runs": lambda s: {"id": UUID(int=1)},
    "workflows.purge_runs": lambda s: {
        "before_id": UUID(int=1 << 100),
        "retention": HOUR,
        "limit": 1000,
        "most_rows": 20_000,
    },
    "workflows.purge_deleted": lambda s: {"retention": HOUR, "limit": 1000},
    "workflows.values": lambda s: {
        "ids": s.ids,
        "references": [("extract.result", ".task")[nth % 2] for nth, _ in enumerate(s.ids)],
    },
    "zones.look": lambda s: {},
    "zones.touch": lambda s: {"version": "2026a"},
    "zones.settle": lambda s: {"version": "2026a"},
    "zones.page": lambda s: {"after": UUID(int=0), "limit": 1000, "ids": None},
    "trail.page": lambda s: {
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "after_xid": "7",
        "after_id": 1,
        "limit": 100,
    },
    "trail.page_of_object": lambda s: {
        "tenant_id": 1,
        "object_id": str(one(s.ids)),
        "after_xid": "7",
        "after_id": 1,
        "limit": 100,
    },
    "trail.note": lambda s: {
        "tenant_id": 1,
        "kind": "trigger",
        "object_id": str(one(s.ids)),
        "name": "x",
        "action": "replayed",
        "actor": None,
        "changes": "{}",
    },
    "trail.note_jobs": lambda s: {"ids": s.job_ids, "actor": None, "changes": ["{}"] * len(s.job_ids)},
    "chain.begin": lambda s: {"key_id": "k", "seal": "s"},
    "chain.head": lambda s: {},
    "chain.next_range": lambda s: {"limit": 1000},
    "chain.digest": lambda s: {"after_xid": "7", "upto_xid": "9"},
    "chain.sign": lambda s: {
        **dict.fromkeys(("number", "changes"), 1),
        **dict.fromkeys(("after_xid", "upto_xid"), "7"),
        **dict.fromkeys(("digest", "previous", "key_id", "seal", "head_seal"), "s"),
        **dict.fromkeys(("last_at", "made_at"), s.now),
    },
    "chain.begin_anew": lambda s: {"number": 1, "key_id": "k", "seal": "s"},
    "chain.checkpoints": lambda s: {"after": 0, "limit": 500},
    "chain.beside": lambda s: {"first_xid": "7", "last_xid": "9", "retention": HOUR, "grace": HOUR},
    "trail.purge": lambda s: {"retention": HOUR, "limit": 1000},
    "usage.load": lambda s: {"tenant_id": s.tenant_ids[0] if s.tenant_ids else 1},
    "usage.latest_starts": lambda s: {
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "after": UUID(int=1 << 100),
        "since": s.now - HOUR,
        "share_since": s.now - HOUR,
        "limit": 10_000,
    },
    "usage.own_waits": lambda s: {
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "since": s.now - HOUR,
        "limit": 2_000,
    },
    "usage.lanes": lambda s: {"tenant_ids": s.tenant_ids, "lanes": 5_000, "shown": 5_000, "limit": 100},
    "usage.loads": lambda s: {"tenant_ids": s.tenant_ids},
    "usage.deaths": lambda s: {
        "tenant_ids": s.tenant_ids,
        "after": first_id_since(s.now - 24 * HOUR),
        "limit": 100,
    },
    "usage.failing_jobs": lambda s: {
        "tenant_id": s.tenant_ids[0] if s.tenant_ids else 1,
        "after": first_id_since(s.now - 25 * HOUR),
        "since": s.now - 24 * HOUR,
        "limit": 2_000,
        "jobs": 5,
    },
    "replica.mark": lambda s: {},
    "replica.standing": lambda s: {},
    "samples.keep": lambda s: {
        "steps": [30, 600],
        "rows": '[{"job_type": "", "due": 1, "parked": 0, "queued": 0, "running": 1, "slots": 4, "lag_seconds": 0.5}]',
    },
    "samples.series": lambda s: {
        "step": 30,
        "job_type": "noop",
        "since": s.now - HOUR,
        "until": s.now,
        "bucket_seconds": 60,
    },
    "samples.purge": lambda s: {"steps": [30, 600], "kept": [HOUR, 2 * HOUR]},
    "workers.announce": lambda s: {
        "name": "w1",
        "queues": ["jobs.noop"],
        "concurrency": 4,
        "busy": 1,
        "process": "7-a",
        "silence": HOUR,
    },
    "workers.leave": lambda s: {"name": "w1", "process": "7-a"},
    "workers.present": lambda s: {"silence": HOUR, "limit": 1000},
    "workers.queues_taken": lambda s: {"silence": HOUR, "queues": ["jobs.noop"]},
}


def fill(shares: dict[str, int], *, announced: bool = True) -> None:
    """Jobs, and triggers in the given shares of a hundred, with an attempt for each that was started."""
    tenants = [factories.make_tenant().id for _ in range(TENANTS)]
    template = factories.make_job()
    trigger = factories.make_trigger(template)
    if not announced:
        Trigger.objects.update(announced_at=None)
    columns = [
        f.column
        for f in Job._meta.concrete_fields
        if f.column not in ("id", "name", "tenant_id", "next_fire_at")
    ]
    own = {f.column for f in Trigger._meta.concrete_fields if f.generated} | OWN_COLUMNS
    of_trigger = [f.column for f in Trigger._meta.concrete_fields if f.column not in own]
    states = [state for state, share in shares.items() for _ in range(share)]
    reasons = {"dead": "exhausted", "skipped": "misfire"}
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO jobs_job (id, name, tenant_id, next_fire_at, {', '.join(map(quoted, columns))}) "
            f"SELECT gen_random_uuid(), 'bulk-' || n, (%s::bigint[])[1 + n %% {TENANTS}], "
            f"now() + n * interval '1 minute', {', '.join(map(quoted, columns))} "
            f"FROM jobs_job, generate_series(1, {JOBS}) AS n WHERE jobs_job.id = %s",
            [tenants, template.id],
        )
        cursor.execute(
            f"WITH job AS (SELECT id, tenant_id, row_number() OVER () AS rank FROM jobs_job), "
            f"bulk AS (SELECT n, (%s::text[])[1 + n %% 100] AS state, now() - n * interval '1 second' AS moment "
            f"         FROM generate_series(1, {TRIGGERS}) AS n) "
            f"INSERT INTO jobs_trigger (id, job_id, tenant_id, state, reason, scheduled_for, due_at, idempotency_key, "
            f"    queued_at, lease_expires_at, finished_at, {', '.join(map(quoted, of_trigger))}) "
            f"SELECT gen_random_uuid(), job.id, job.tenant_id, bulk.state, coalesce(%s::jsonb ->> bulk.state, ''), "
            f"    moment, moment, 'bulk-' || n, moment, "
            f"    CASE bulk.state WHEN 'running' THEN now() + interval '1 minute' END, "
            f"    CASE WHEN bulk.state IN ('succeeded', 'dead', 'skipped') THEN moment END, "
            f"    {', '.join('t.' + quoted(column) for column in of_trigger)} "
            f"FROM jobs_trigger t, bulk JOIN job ON job.rank = 1 + bulk.n %% {JOBS} WHERE t.id = %s",
            [states, json.dumps(reasons), trigger.id],
        )
        cursor.execute(
            "INSERT INTO jobs_attempt (id, trigger_id, job_id, tenant_id, number, fence, worker, state, started_at) "
            "SELECT gen_random_uuid(), id, job_id, tenant_id, 1, 1, 'w1', 'started', now() FROM jobs_trigger "
            "WHERE state NOT IN ('pending', 'queued')"
        )
        fill_pasts(cursor)


def fill_pasts(cursor: Any) -> None:
    """A timeline, a range and a catch-up for each job; four of five are finished, and half of the others decided."""
    cursor.execute(
        "INSERT INTO jobs_jobversion (id, job_id, tenant_id, version, status, schedule, valid_from) "
        "SELECT gen_random_uuid(), id, tenant_id, n, 'active', '{}', created_at + n * interval '1 second' "
        "FROM jobs_job, generate_series(1, 3) AS n"
    )
    cursor.execute(
        "INSERT INTO jobs_answer (tenant_id, key, fingerprint, status, headers, body, created_at) "
        "SELECT tenant_id, id, '', 201, '{}', '', now() FROM jobs_job"
    )
    for table, column in (("jobs_activityminute", "minute"), ("jobs_activityhour", "hour")):
        cursor.execute(
            f"INSERT INTO {table} ({column}, tenant_id, job_type, started) "
            f"SELECT date_trunc('{column}', now()) - n * interval '1 {column}', t.id, 'noop', 1 "
            "FROM tenants_tenant t, generate_series(0, 1000) n ON CONFLICT DO NOTHING"
        )
    cursor.execute(
        "INSERT INTO jobs_skippedrange "
        "    (id, job_id, tenant_id, job_version, from_at, until_at, count, reason, created_at) "
        "SELECT gen_random_uuid(), id, tenant_id, 1, created_at, created_at, 1, 'misfire', created_at FROM jobs_job"
    )
    cursor.execute(
        "INSERT INTO jobs_catchup (id, job_id, tenant_id, job_version, origin, policy, from_at, until_at, cursor, "
        "    tail, fired, skipped, created_at, finished_at) "
        "SELECT gen_random_uuid(), id, tenant_id, 2, 'outage', 'fire_once', created_at, now(), "
        "    CASE n % 2 WHEN 0 THEN now() ELSE created_at END, '{}', 0, 0, now(), "
        "    CASE n % 5 WHEN 0 THEN NULL ELSE now() END "
        "FROM (SELECT *, row_number() OVER () AS n FROM jobs_job) job"
    )


def note_events(count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_event (tenant_id, at, kind, job_id, data) "
            "SELECT 1, now(), 'trigger.dead', gen_random_uuid(), '{}' FROM generate_series(1, %s)",
            [count],
        )


def quoted(column: str) -> str:
    return f'"{column}"'


def analyze(*tables: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(tables)}")


def sample() -> Sample:
    return Sample(
        ids=list(Trigger.objects.values_list("id", flat=True)[:100]),
        job_ids=list(Job.objects.values_list("id", flat=True)[:100]),
        tenant_ids=sorted(set(Job.objects.values_list("tenant_id", flat=True))),
        now=factories.now(),
    )


def plan_of(query: db.Query, parameters: dict[str, Any]) -> dict[str, Any]:
    with query.settled(), connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {query.sql}", parameters)
        [found] = cursor.fetchone()
    [explained] = json.loads(found) if isinstance(found, str) else found
    plan: dict[str, Any] = explained["Plan"]
    return plan


def generic_plan_of(query: db.Query, parameters: dict[str, Any]) -> dict[str, Any]:
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", query.sql)))
    text = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", query.sql).replace("%%", "%")
    values = ", ".join(f"%({name})s" for name in names)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        cursor.execute(f"PREPARE kept AS {text}")
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE kept{f'({values})' if names else ''}", parameters)
        [found] = cursor.fetchone()
        cursor.execute("DEALLOCATE kept")
    [explained] = json.loads(found) if isinstance(found, str) else found
    plan: dict[str, Any] = explained["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def filled_tables() -> set[str]:
    """The big tables and those of their partitions that hold more than a few rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relname LIKE 'jobs%%' "
            "AND pg_relation_size(oid) > 100000"
        )
        return {name for (name,) in cursor.fetchall()}


def leading_columns() -> dict[str, str]:
    """The first column of every index over a whole table: without a condition on it, all of it is read."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid, 1, true) FROM pg_index "
            "WHERE indpred IS NULL AND indrelid::regclass::text = ANY(%s)",
            [list(filled_tables())],
        )
        return dict(cursor.fetchall())


def whole_reads(plan: dict[str, Any], tables: set[str], leading: dict[str, str]) -> list[str]:
    """What the plan reads from end to end: big tables, and indexes over all of their rows."""
    scanned = [n["Relation Name"] for n in nodes(plan) if n["Node Type"] == "Seq Scan"]
    walked = [
        n["Index Name"]
        for n in nodes(plan)
        if leading.get(n.get("Index Name"), "") not in n.get("Index Cond", "")
    ]
    return [name for name in scanned if name in tables] + walked


def most_rows(plan: dict[str, Any]) -> int:
    """How many triggers the plan expects to read in one place, if no limit ends it sooner."""
    if plan["Node Type"] == "Limit":
        return 0
    own = plan["Plan Rows"] if plan.get("Relation Name") == "jobs_trigger" else 0
    return max([own, *map(most_rows, plan.get("Plans", []))])


def offenders() -> dict[str, list[str]]:
    taken, tables, leading = sample(), filled_tables(), leading_columns()
    found = {
        name: whole_reads(plan_of(query, PARAMETERS[name](taken)), tables, leading)
        for name, query in db.all_queries().items()
    }
    return {name: names for name, names in found.items() if names}


@pytest.fixture(autouse=True)
def new_tables() -> None:
    make_new(*BIG)


class TestPlans:
    def test_know_parameters_for_every_query(self) -> None:
        assert PARAMETERS.keys() == db.all_queries().keys()

    def test_exist_over_empty_tables(self) -> None:
        taken = sample()
        assert all(plan_of(query, PARAMETERS[name](taken)) for name, query in db.all_queries().items())

    def test_read_no_big_table_whole_when_it_was_analyzed(self) -> None:
        fill(MIXED)
        analyze(*BIG)
        assert offenders() == {}

    def test_read_no_big_table_whole_where_a_past_is_large_and_its_end_near(self) -> None:
        """As right after an outage, when all is in hand and statistics know of none."""
        fill(MIXED)
        analyze(*BIG)
        CatchUp.objects.update(finished_at=None)
        named = PARAMETERS["jobs.take_due"](sample()) | {"ids": sample().job_ids}
        plan = plan_of(db.all_queries()["jobs.take_due"], named)
        assert (offenders(), whole_reads(plan, filled_tables(), leading_columns())) == ({}, [])

    def test_read_no_big_table_whole_when_it_was_never_analyzed(self) -> None:
        fill(MIXED)
        assert offenders() == {}

    def test_read_no_big_table_whole_when_it_was_analyzed_while_empty(self) -> None:
        analyze("jobs_trigger", "jobs_job")
        fill(MIXED)
        assert offenders().keys() <= COLD

    @pytest.mark.parametrize("state", ["pending", "succeeded"])
    def test_read_no_big_table_whole_when_it_looked_otherwise_while_analyzed(self, state: str) -> None:
        fill({state: 100})
        analyze("jobs_trigger", "jobs_job")
        for model in (Trigger, CatchUp, SkippedRange, JobVersion, Job):
            model.objects.all().delete()
        fill(MIXED)
        assert offenders() == {}

    def test_read_the_feed_in_its_order_where_a_day_was_vacuumed_without_a_row(self) -> None:
        """As after transactions that were rolled back: it is then taken for empty, however much it holds."""
        make_new("jobs_event")
        note_events(1_000)
        analyze("jobs_event")
        note_events(5_000)
        fill(MIXED)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE pg_class SET reltuples = 0 WHERE oid IN ("
                "SELECT inhrelid FROM pg_inherits WHERE inhparent = 'jobs_event'::regclass)"
            )
        assert {name: names for name, names in offenders().items() if name in FEED} == {}


class TestKeptPlans:
    """They are made once, for no parameters in particular, and serve whatever comes."""

    @pytest.mark.parametrize("analyzed", [True, False])
    def test_expect_few_triggers_whatever_waits(self, analyzed: bool) -> None:
        """As beside very many jobs: all that waits was made ahead of its time, and nothing of it announced."""
        fill({"pending": 100}, announced=False)
        if analyzed:
            analyze(*BIG)
        taken = sample()
        expected = {
            name: most_rows(generic_plan_of(query, PARAMETERS[name](taken)))
            for name, query in db.all_queries().items()
            if "plan" in query.headers
        }
        assert expected.keys() >= {"dispatch.news"}
        assert {name: rows for name, rows in expected.items() if rows > TRIGGERS / 10} == {}


class TestTheLatestOfAJob:
    """What every read of a job asks of its history, however long that is."""

    @pytest.mark.parametrize(("newest", "most"), [("succeeded", 10), ("failed", 3_000)])
    def test_is_found_at_the_end_of_its_attempts(self, newest: str, most: int) -> None:
        trigger = factories.make_trigger(factories.make_job(), "dead")
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_attempt "
                "    (id, trigger_id, job_id, tenant_id, number, fence, worker, state, started_at) "
                "SELECT lpad(to_hex(n), 32, '0')::uuid, %s, %s, %s, n, 1, '', %s, now() "
                "FROM generate_series(1, 5000) n",
                [trigger.id, trigger.job_id, trigger.tenant_id, newest],
            )
            query, named = db.all_queries()["outcomes.latest"], {"attempts": 1000, "most": 100}
            cursor.execute(
                f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {query.sql}", named | {"job_id": trigger.job_id}
            )
            plan = cursor.fetchone()[0][0]["Plan"]
        read = sum(
            node["Actual Rows"] * node["Actual Loops"] for node in nodes(plan) if "Relation Name" in node
        )
        assert 0 < read <= most
