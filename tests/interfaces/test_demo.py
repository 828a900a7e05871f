"""The demo's judgement, on made-up evidence: it must see every kind of fault, and none where there is none."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import aiohttp
import pytest
from rich.console import Console
from standardwebhooks import Webhook

from jobs.core.backoff import RetryPolicy
from jobs.core.json_rules import check_json
from jobs.handlers import registry
from jobs.shapes.retry import Retry
from scheduler_project.demo.receiver import Arrival, Receiver
from scheduler_project.demo.scenario import (
    TENANTS,
    CreatedJob,
    Reception,
    SampleJob,
    expected_firings,
    sample_jobs,
)
from scheduler_project.demo.system import own_environment
from scheduler_project.demo.table import Board, live_view, plain_line, verdict_table
from scheduler_project.demo.verdict import DemoVerdict, LedgerAudit, judge

START = datetime(2026, 3, 1, 12, 0, 30, 123456, tzinfo=UTC)
IN_ORDER = LedgerAudit(passed=True, says="differences: none")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def created(
    schedule: dict[str, object] | None = None, reception: Reception = Reception.ACCEPTED
) -> CreatedJob:
    """A created job. By default it fires every 5 s."""
    sample = SampleJob(
        tenant="acme",
        name="sample",
        schedule=schedule or {"type": "interval", "every_seconds": 5},
        says="every 5 s",
        reception=reception,
    )
    return CreatedJob(sample=sample, id="job-1", created_at=START)


def delivery(scheduled_for: datetime, *, lag: float = 0.05, attempt: int = 1, status: int = 200) -> Arrival:
    return Arrival(
        path="/acme/sample",
        job_id="job-1",
        trigger_id=f"trigger of {scheduled_for}",
        attempt=attempt,
        scheduled_for=scheduled_for,
        idempotency_key=f"job:job-1:scheduled_for:{scheduled_for.isoformat()}",
        received_at=scheduled_for + timedelta(seconds=lag),
        signed=True,
        status=status,
    )


def verdict_of(
    job: CreatedJob,
    deliveries: list[Arrival],
    *,
    dead: set[datetime] = frozenset(),
    until: float = 12,
    ledger: LedgerAudit = IN_ORDER,
) -> DemoVerdict:
    return judge(
        [job], deliveries=deliveries, dead_letters={job.id: dead}, horizon=after(until), ledger=ledger
    )


class TestScenario:
    def test_asks_for_jobs_that_the_handlers_and_policies_accept(self):
        for sample in sample_jobs(now=START):
            document = sample.document(receiver_url="http://127.0.0.1:1")
            check_json(document, field="", max_bytes=65_536)
            registry.validate_payload("webhook", document["payload"])
            Retry.read(document["retry_policy"])

    def test_covers_every_tenant_schedule_priority_and_reception(self):
        samples = sample_jobs(now=START)
        assert {sample.tenant for sample in samples} == set(TENANTS)
        assert {s.schedule["type"] for s in samples} == {"cron", "interval", "once", "immediate"}
        assert {sample.priority for sample in samples} == {"critical", "high", "medium", "low"}
        assert {sample.reception for sample in samples} == set(Reception)
        assert len({sample.path for sample in samples}) == len(samples)

    def test_retries_end_within_the_patience_of_the_verdict(self):
        policy = RetryPolicy.from_json(
            Retry.read(sample_jobs(now=START)[0].document(receiver_url="")["retry_policy"]).stored()
        )
        retries = Reception.RETRIED.requests - 1
        assert policy.max_attempts > retries
        assert policy.initial_delay * retries <= timedelta(seconds=1)

    def test_counts_an_interval_from_the_creation_and_not_from_zero(self):
        assert expected_firings(created(), until=after(11)) == [after(5), after(10)]

    def test_includes_a_firing_at_the_horizon_itself(self):
        assert expected_firings(created(), until=after(5)) == [after(5)]

    def test_expects_cron_at_whole_minutes_in_the_zone(self):
        job = created({"type": "cron", "cron": "* * * * *", "timezone": "Asia/Kolkata"})
        minute = datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
        assert expected_firings(job, until=after(100)) == [minute, minute + timedelta(minutes=1)]

    def test_expects_a_single_instant_once_it_has_passed(self):
        once = created({"type": "once", "run_at": "2026-03-01T12:00:38Z"})
        assert expected_firings(once, until=after(7)) == []
        assert expected_firings(once, until=after(9)) == [datetime(2026, 3, 1, 12, 0, 38, tzinfo=UTC)]
        assert expected_firings(created({"type": "immediate"}), until=after(9)) == [START]

    def test_lets_a_retried_firing_pass_at_the_third_request(self):
        statuses = [Reception.RETRIED.status(request_number=number) for number in (1, 2, 3, 4)]
        assert statuses == [503, 503, 200, 200]


class TestVerdict:
    def test_passes_when_every_firing_came_once_and_on_time(self):
        verdict = verdict_of(created(), [delivery(after(5)), delivery(after(10))])
        assert verdict.passed
        assert verdict.summary == "2 of 2 firings delivered; all once and on time"

    def test_fails_when_nothing_came(self):
        assert not verdict_of(created(), []).passed

    def test_fails_when_the_ledger_differs(self):
        differs = LedgerAudit(passed=False, says="missing: one")
        verdict = verdict_of(created(), [delivery(after(5)), delivery(after(10))], ledger=differs)
        assert not verdict.passed
        assert verdict.summary.endswith("the ledger differs from the schedules")

    def test_fails_when_nothing_was_expected_either(self):
        verdict = verdict_of(created(), [], until=3)
        assert not verdict.passed
        assert "nothing" in verdict.summary

    def test_counts_a_firing_that_never_came_as_lost(self):
        verdict = verdict_of(created(), [delivery(after(5))])
        assert verdict.jobs[0].faults == {"lost": 1}
        assert not verdict.passed

    def test_leaves_firings_after_the_horizon_aside(self):
        assert verdict_of(created(), [delivery(after(5)), delivery(after(10))], until=9).jobs[0].expected == 1

    @pytest.mark.parametrize(("lag", "late"), [(1.999, 0), (2.0, 0), (2.001, 1)])
    def test_calls_more_than_two_seconds_late(self, lag, late):
        assert verdict_of(created(), [delivery(after(5), lag=lag)], until=9).jobs[0].late == late

    def test_calls_a_second_request_after_the_final_answer_doubled(self):
        twice = [delivery(after(5)), delivery(after(5), attempt=2)]
        assert verdict_of(created(), twice, until=9).jobs[0].faults == {"doubled": 1}

    def test_calls_two_keys_for_one_instant_doubled(self):
        job = created(reception=Reception.RETRIED)
        tries = [delivery(after(5), attempt=number) for number in (1, 2, 3)]
        tries[1] = dataclasses.replace(tries[1], idempotency_key="another:scheduled_for:key")
        assert verdict_of(job, tries, until=9).jobs[0].faults == {"doubled": 1}

    def test_does_not_call_retries_doubled_or_late(self):
        job = created(reception=Reception.RETRIED)
        tries = [delivery(after(5), attempt=number, lag=number) for number in (1, 2, 3)]
        verdict = verdict_of(job, tries, until=9)
        assert verdict.passed
        assert verdict.jobs[0].retries == 2

    def test_calls_an_attempt_number_that_comes_twice_doubled(self):
        job = created(reception=Reception.RETRIED)
        tries = [delivery(after(5), attempt=number) for number in (1, 1, 2)]
        assert verdict_of(job, tries, until=9).jobs[0].faults == {"doubled": 1}

    def test_calls_retries_that_stopped_short_lost(self):
        job = created(reception=Reception.RETRIED)
        tries = [delivery(after(5), attempt=number) for number in (1, 2)]
        assert verdict_of(job, tries, until=9).jobs[0].faults == {"lost": 1}

    def test_wants_a_refused_firing_among_the_dead_letters(self):
        job = created(reception=Reception.REFUSED)
        refused = [delivery(after(5), status=400)]
        assert verdict_of(job, refused, until=9, dead={after(5)}).passed
        missing = verdict_of(job, refused, until=9)
        assert missing.jobs[0].faults == {"not among the dead letters": 1}

    def test_reports_an_instant_that_nobody_promised(self):
        strange = [delivery(after(5)), delivery(after(6))]
        assert verdict_of(created(), strange, until=9).jobs[0].faults == {"not expected": 1}

    def test_reports_a_firing_before_its_time(self):
        early = [delivery(after(5), lag=-0.001)]
        assert verdict_of(created(), early, until=9).jobs[0].faults == {"not expected": 1}

    def test_leaves_what_somebody_ran_by_hand_aside(self):
        by_hand = dataclasses.replace(delivery(after(6)), idempotency_key="job:job-1:run:1")
        assert verdict_of(created(), [delivery(after(5)), by_hand], until=9).passed

    def test_does_not_count_an_unsigned_request_as_a_delivery(self):
        forged = dataclasses.replace(delivery(after(5)), signed=False, status=401)
        assert verdict_of(created(), [forged], until=9).jobs[0].faults == {"lost": 1, "not signed": 1}

    def test_leaves_other_jobs_aside(self):
        stranger = dataclasses.replace(delivery(after(6)), job_id="job-2")
        assert verdict_of(created(), [delivery(after(5)), stranger], until=9).passed


class TestTable:
    def test_shows_each_job_with_its_next_firing_outcomes_and_lag(self):
        board = self.board([delivery(after(5), lag=0.04), delivery(after(10), lag=0.08)])
        text = drawn(live_view(board, now=after(12)))
        assert "12 s of 30 s · 2 firings · 0 retries · lag p50/max 60/80 ms · 0 late" in text
        assert "●●" in text
        assert "3 s" in text
        assert "user admin [x]" in text

    def test_says_so_in_one_line_before_anything_came(self):
        assert (
            plain_line(self.board([]), now=after(1))
            == "1 s of 30 s · 0 firings · 0 retries · lag p50/max - ms · 0 late"
        )

    def test_names_the_faults_of_a_verdict(self):
        text = drawn(verdict_table(verdict_of(created(), [delivery(after(5), lag=3)])))
        assert "sample: 1 lost\nsample: 1 late by more than 2 s" in text

    def board(self, deliveries: list[Arrival]) -> Board:
        return Board(
            jobs=[created()],
            deliveries=deliveries,
            started_at=START,
            lasts=timedelta(seconds=30),
            access={"Admin": "user admin [x]"},
            upcoming={"job-1": [after(20), after(15), after(10)]},
        )


def drawn(renderable: object) -> str:
    out = StringIO()
    Console(file=out, width=200).print(renderable)
    return out.getvalue()


class TestOwnEnvironment:
    def test_drops_whatever_would_lead_to_a_users_servers(self, tmp_path: Path):
        given = {
            "PATH": "/bin",
            "DATABASE_URL": "postgresql://real",
            "REDIS_URL": "redis://real",
            "CARILLON_DATA_DIR": "elsewhere",
            "CARILLON_HTTPS": "1",
        }
        assert own_environment(given, data_dir=tmp_path) == {
            "PATH": "/bin",
            "CARILLON_DATA_DIR": str(tmp_path),
            "CARILLON_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
            "CARILLON_SECOND_FACTOR": "optional",
        }

    def test_changes_nothing_the_second_time(self, tmp_path: Path):
        once = own_environment({"PATH": "/bin"}, data_dir=tmp_path)
        assert own_environment(once, data_dir=tmp_path) == once


class TestReceiver:
    """Over real HTTP, as the demo's webhooks come."""

    SAMPLE = SampleJob(
        tenant="acme",
        name="flaky",
        schedule={"type": "immediate"},
        says="immediate",
        reception=Reception.RETRIED,
    )

    def test_answers_by_the_scenario_and_logs_each_request(self, tmp_path: Path):
        statuses, receiver = run_against(self.SAMPLE, tmp_path, secret=SECRET, requests=3)
        assert statuses == [503, 503, 200]
        assert [entry.signed for entry in receiver.deliveries] == [True] * 3
        assert receiver.deliveries[0].scheduled_for == START
        assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3

    def test_refuses_a_request_another_secret_has_signed(self, tmp_path: Path):
        statuses, receiver = run_against(self.SAMPLE, tmp_path, secret="whsec_" + "A" * 32, requests=1)
        assert statuses == [401]
        assert [entry.signed for entry in receiver.deliveries] == [False]


def run_against(
    sample: SampleJob, directory: Path, *, secret: str, requests: int
) -> tuple[list[int], Receiver]:
    body = '{"a":1}'

    async def send_all() -> tuple[list[int], Receiver]:
        receiver = Receiver(log_path=directory / "log.jsonl")
        receiver.expect(sample)
        receiver.secrets = {sample.tenant: SECRET}
        statuses = []
        async with receiver, aiohttp.ClientSession() as session:
            for number in range(1, requests + 1):
                now = datetime.now(UTC)
                headers = {
                    "Idempotency-Key": "job:job-1:scheduled_for:x",
                    "X-Carillon-Job": "job-1",
                    "X-Carillon-Trigger": "trigger-1",
                    "X-Carillon-Attempt": str(number),
                    "X-Carillon-Scheduled-For": START.isoformat().replace("+00:00", "Z"),
                    "webhook-id": "trg_1",
                    "webhook-timestamp": str(int(now.timestamp())),
                    "webhook-signature": Webhook(secret).sign("trg_1", now, body),
                }
                async with session.post(receiver.url + sample.path, data=body, headers=headers) as answer:
                    statuses.append(answer.status)
        return statuses, receiver

    return asyncio.run(send_all())
