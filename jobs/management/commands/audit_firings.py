"""``manage.py audit_firings``: is every firing the schedules named on record, and nothing else? Exit code 1 if not."""

import json
import sys
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.db.models import Q, QuerySet

from jobs.actions.ledger_audit import RETENTION_MARGIN, SETTLING, JobAudit, audit
from jobs.conf import engine_settings
from jobs.core.errors import InvalidInput
from jobs.core.instants import instant_text, parse_instant
from jobs.core.workflows.states import SCHEDULE_TYPE
from jobs.models import Job
from tenants.clock import database_now
from tenants.management.command import PromptCommand

#: Differences that are shown one by one; all of them are counted.
_MAX_SHOWN = 100


class Command(PromptCommand):
    help = "Check past schedules: report firings without a record and records without a firing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--job", metavar="ID|NAME", help="only this job; a name needs --tenant")
        parser.add_argument("--tenant", metavar="SLUG", help="only this tenant's jobs")
        parser.add_argument(
            "--from",
            dest="since",
            metavar="TIME",
            type=_instant,
            help="start, RFC 3339; by default as far back as history is kept",
        )
        parser.add_argument(
            "--to", dest="until", metavar="TIME", type=_instant, help="end, RFC 3339; now by default"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, **options: Any) -> None:
        now = database_now()
        horizon = now - timedelta(days=engine_settings().history_days) + RETENTION_MARGIN
        since = max(options["since"] or horizon, horizon)
        until = min(options["until"] or now, now - SETTLING)
        jobs = _jobs(options["job"], options["tenant"])
        report = AuditReport(since, until)
        for result in audit(jobs=jobs, since=since, until=until, on_progress=self._progress(jobs)):
            report.add(result)
        self.stdout.write(json.dumps(report.as_json()) if options["json"] else report.as_text())
        if report.differences:
            sys.exit(1)

    def _progress(self, jobs: QuerySet[Job]) -> Callable[[int], None]:
        if not sys.stderr.isatty():
            return lambda done: None
        total = jobs.count()
        return lambda done: self.stderr.write(f"\r{done:,} of {total:,} jobs", ending="")


class AuditReport:
    """The findings of an audit, in totals and the first differences."""

    def __init__(self, since: datetime, until: datetime) -> None:
        self._since, self._until = since, until
        self._jobs = self._instants = self._unproven = 0
        self._counts: Counter[str] = Counter()
        self._shown: list[dict[str, str | None]] = []

    @property
    def differences(self) -> int:
        return self._counts.total()

    def add(self, result: JobAudit) -> None:
        self._jobs += 1
        self._instants += result.instants
        self._unproven += bool(result.unproven)
        self._counts += result.counts
        job = {"job": str(result.job.id), "tenant": result.job.tenant.slug, "name": result.job.name}
        notes = [(d.kind, d.at, d.detail) for d in result.differences]
        notes += [("unproven", after, why) for after, _, why in result.unproven]
        for kind, at, detail in notes[: _MAX_SHOWN - len(self._shown)]:
            self._shown.append({**job, "kind": kind, "at": instant_text(at), "detail": detail})

    def as_json(self) -> dict[str, Any]:
        return {
            "from": instant_text(self._since),
            "to": instant_text(self._until),
            "jobs": self._jobs,
            "instants": self._instants,
            "unproven_jobs": self._unproven,
            "differences": self.differences,
            "by_kind": dict(self._counts),
            "examples": self._shown,
        }

    def as_text(self) -> str:
        lines = ["{kind}: {at} of {tenant}/{name} ({job}): {detail}".format(**shown) for shown in self._shown]
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self._counts.items()) or "none"
        total = f"{self._instants:,} instants of {self._jobs:,} jobs audited; differences: {kinds}"
        if self._unproven:
            total += f"; {self._unproven:,} jobs with a schedule that can no longer be computed"
        return "\n".join([*lines, total])


def _instant(text: str) -> datetime:
    try:
        return parse_instant(text)
    except InvalidInput as error:
        raise ArgumentTypeError(" ".join(error.errors[""])) from None


def _jobs(wanted: str | None, tenant: str | None) -> QuerySet[Job]:
    """The jobs asked for, deleted ones included: their history stays. Raises ``CommandError`` when there is none.

    Schedules of workflows are among them; tasks have no schedule.
    """
    jobs = Job.with_hidden.filter(Q(workflow_id=None) | Q(job_type=SCHEDULE_TYPE))
    if tenant:
        jobs = jobs.filter(tenant__slug=tenant)
    if wanted is None:
        return jobs
    by_id = _as_id(wanted)
    if by_id is None and tenant is None:
        raise CommandError("A job's name needs --tenant; names are unique among a tenant's jobs only.")
    jobs = jobs.filter(Q(id=by_id) if by_id else Q(name=wanted))
    if not jobs.exists():
        raise CommandError(f"There is no job {wanted!r}{f' of {tenant}' if tenant else ''}.")
    return jobs


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
