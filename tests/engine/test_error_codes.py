"""Failures are counted by error code, under labels that no handler and no target can multiply."""

import re
from pathlib import Path

import pytest

import jobs
from jobs.activity import own
from jobs.core.activity import ERROR_CODES, label_of_error
from jobs.core.levers.breaker import UNREACHED
from jobs.store import execution
from jobs.store.insight.activity import ERRORS
from tests.factories import claim, finish_of, make_job, make_trigger

pytestmark = pytest.mark.django_db


def counted() -> dict[tuple[str, ...], int]:
    return {labels: counts["times"] for (name, labels), counts in own.take().items() if name == ERRORS}


def end(state: str = "retrying", **columns: object) -> None:
    trigger = make_trigger(make_job(), "queued")
    [row] = claim(trigger)
    trigger.refresh_from_db()
    attempt = trigger.attempts.get(id=row.attempt_id)
    of = {"tenant_id": trigger.tenant_id, "job_type": trigger.job_type}
    execution.finish([finish_of(trigger, attempt, state, **of, **columns)])


@pytest.fixture(autouse=True)
def no_counts() -> None:
    own.take()


@pytest.mark.django_db(transaction=True)
def test_failures_are_counted_by_what_failed() -> None:
    end(error_code="connect")
    end(error_code="http_503")
    end(error_code="http_500")
    end(attempt_state="timed_out", error_code="timeout")
    end(error_code="order-4711")
    end("succeeded")
    assert counted() == {
        ("noop", "connect"): 1,
        ("noop", "http_5xx"): 2,
        ("noop", "timeout"): 1,
        ("noop", "other"): 1,
    }


@pytest.mark.parametrize(
    ("code", "label"),
    [
        ("dns", "dns"),
        ("http_404", "http_4xx"),
        ("http_999", "http_9xx"),
        ("http_4040", "other"),
        ("http_04x", "other"),
        ("http_503\n", "other"),
        ("", "other"),
    ],
)
def test_a_code_has_one_of_few_labels(code: str, label: str) -> None:
    assert label_of_error(code) == label


def test_every_code_of_our_own_is_known() -> None:
    given = re.compile(r"\b(?:error_)?code\"?\]? ?[=:] ?\"([a-z_]+)\"")
    handlers = Path(jobs.__file__).parent / "handlers"
    found = {code for path in handlers.rglob("*.py") for code in given.findall(path.read_text())}
    assert {"redirect", "dns_timeout", "queue_full", "bad_url"} <= found
    assert found | UNREACHED <= ERROR_CODES
