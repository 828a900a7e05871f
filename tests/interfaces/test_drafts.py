"""Many definitions drafted together have the same results as each drafted alone, refusals included."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.actions import drafts
from jobs.actions.drafts import Drafts, draft_job
from jobs.core.errors import InvalidInput
from jobs.models import Job
from tests.factories import make_tenant, now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]

_URL = "https://a.example/x"
_EVERY = {"type": "interval", "every_seconds": 60}
#: Parts that several definitions share, right and wrong. The last two differ in a type alone.
_RESTS: list[dict[str, Any]] = [
    {"job_type": "webhook", "schedule": _EVERY},
    {"job_type": "webhook", "schedule": {"type": "cron", "cron": "0 2 * * *"}, "labels": {"env": "prod"}},
    {"job_type": "webhook", "schedule": {"type": "immediate"}},
    {"job_type": "webhook", "schedule": {"type": "once", "run_at": "2001-01-01T00:00:00Z"}},
    {"job_type": "nothing", "schedule": _EVERY},
    {"job_type": "noop", "schedule": _EVERY, "max_concurrent": 1},
    {"job_type": "noop", "schedule": _EVERY, "max_concurrent": True},
]
#: Mostly right ones: otherwise nothing would be remembered.
_NAMES = [*"abcdef", "", "two\nlines", None, 7]
_PAYLOADS: list[Any] = [
    *({"url": f"https://{host}.example"} for host in "abcdef"),
    {"url": _URL, "body": "x" * 70_000},
    {"url": _URL, "body": "nul \0"},
    {"url": "no"},
    {},
    None,
    [],
]
_DEFINITION = st.builds(
    lambda rest, name, payload: rest | {"name": name, "payload": payload},
    st.sampled_from(_RESTS),
    st.sampled_from(_NAMES),
    st.sampled_from(_PAYLOADS),
)


def told(draft: Any, definition: object) -> Any:
    """The columns of the job that was drafted, or the faults of the definition."""
    try:
        job: Job = draft(definition)
    except InvalidInput as error:
        return error.errors
    columns = {field.attname: getattr(job, field.attname) for field in Job._meta.concrete_fields}
    if columns["name"] == f"{job.job_type}-{columns.pop('id').hex[-12:]}":
        columns["name"] = "made up"
    return columns


class TestDrafts:
    @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(definitions=st.lists(_DEFINITION, min_size=8, max_size=20))
    def test_are_what_each_would_be_alone(self, definitions: list[dict[str, Any]]) -> None:
        tenant, present = make_tenant(), now()
        together = Drafts(tenant=tenant, now=present)
        for definition in (*definitions, 7, {}):
            alone = told(lambda it: draft_job(tenant=tenant, definition=it, now=present), definition)
            assert told(together.draft, definition) == alone

    def test_read_once_what_they_have_in_common(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tenant, present = make_tenant(), now()
        asked = []

        def counting(**arguments: Any) -> Job:
            asked.append(arguments["definition"])
            return draft_job(**arguments)

        monkeypatch.setattr(drafts, "draft_job", counting)
        together = Drafts(tenant=tenant, now=present)
        jobs = [
            together.draft({"name": f"job {n}", "job_type": "noop", "schedule": _EVERY}) for n in range(5)
        ]
        assert len(asked) == 1
        assert len({job.id for job in jobs}) == 5
        assert [job.name for job in jobs] == [f"job {n}" for n in range(5)]
        together.draft({"name": "other", "job_type": "noop", "schedule": _EVERY, "timeout_seconds": 3})
        assert len(asked) == 2
