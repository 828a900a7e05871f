"""Asking for notices: on a job, on the tenant; and the handlers that send them."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.core import mail

from jobs.handlers import registry
from jobs.handlers.builtin import notice
from jobs.handlers.context import Context
from jobs.handlers.execution import run_sync
from jobs.handlers.outcome import Permanent
from jobs.models import Job
from tenants.vault.secrets import delete_secret, put_secret
from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job

pytestmark = pytest.mark.django_db
URL = "https://ops.example/hook"


@pytest.fixture
def owner(job_types: None, settings: Any) -> Caller:
    settings.EMAIL_HOST = "mail.example"
    return Caller(make_tenant())


def context() -> Context:
    return Context(
        tenant="acme",
        job_id=uuid4(),
        job_name="carillon-notices",
        trigger_id=uuid4(),
        attempt_id=uuid4(),
        scheduled_for=datetime.now(UTC),
        attempt_number=1,
        idempotency_key="notice:7-1",
        fence=1,
        deadline=datetime.now(UTC),
    )


class TestAJob:
    def test_is_given_and_shown_its_notify(self, owner: Caller) -> None:
        asked = {"on": ["paused", "dead"], "url": URL, "email": "ops@example.com"}
        created = owner.post("/jobs", noop_job(notify=asked, pause_after_failures=3))
        assert created.status_code == 201, created.content
        assert created.json()["notify"] == asked | {"on": ["dead", "paused"]}
        assert created.json()["pause_after_failures"] == 3
        assert not Job.objects.get().watched

    def test_is_watched_when_more_than_its_ends_are_asked_for(self, owner: Caller) -> None:
        job_id = owner.post("/jobs", noop_job(notify={"on": ["failed"], "url": URL})).json()["id"]
        assert Job.objects.get().watched
        edited = owner.patch(f"/jobs/{job_id}", {"notify": None})
        assert (edited.json()["notify"], edited.json()["version"]) == (None, 2)
        assert not Job.objects.get().watched

    @pytest.mark.parametrize(
        ("notify", "field"),
        [
            (URL, "notify"),
            ({"url": URL}, "notify.on"),
            ({"on": [], "url": URL}, "notify.on"),
            ({"on": ["death"], "url": URL}, "notify.on[0]"),
            ({"on": [{}], "url": URL}, "notify.on[0]"),
            ({"on": ["dead"]}, "notify.url"),
            ({"on": ["dead"], "url": "ftp://x"}, "notify.url"),
            ({"on": ["dead"], "url": 5}, "notify.url"),
            ({"on": ["dead"], "email": "nobody"}, "notify.email"),
            ({"on": ["dead"], "email": "a@b.example\nBcc: c@d.example"}, "notify.email"),
            ({"on": ["dead"], "url": URL, "to": "x"}, "notify.to"),
        ],
    )
    def test_is_refused_what_cannot_be_done(self, owner: Caller, notify: Any, field: str) -> None:
        assert faulty_fields(owner.post("/jobs", noop_job(notify=notify))) == {field}

    @pytest.mark.parametrize("count", [0, 101, 1.5, "3"])
    def test_is_refused_a_count_that_is_none(self, owner: Caller, count: Any) -> None:
        assert faulty_fields(owner.post("/jobs", noop_job(pause_after_failures=count))) == {
            "pause_after_failures"
        }

    def test_is_refused_e_mail_where_none_is_sent(self, owner: Caller, settings: Any) -> None:
        settings.EMAIL_HOST = ""
        asked = {"on": ["dead"], "email": "ops@example.com"}
        assert faulty_fields(owner.post("/jobs", noop_job(notify=asked))) == {"notify.email"}

    def test_cannot_be_of_a_system_type(self, owner: Caller) -> None:
        payload = {"url": URL}
        refused = owner.post("/jobs", noop_job(job_type="carillon.notice", payload=payload))
        assert faulty_fields(refused) == {"job_type"}
        assert "carillon." not in owner.get("/job-types").content.decode()
        assert owner.call("PUT", "/job-types/carillon.mine", {}).status_code == 409


class TestATenant:
    def test_is_given_and_relieved_of_its_notify(self, owner: Caller) -> None:
        asked = {"on": ["succeeded"], "url": URL}
        assert owner.call("PUT", "/tenant/notify", asked).json() == asked
        assert owner.get("/tenant").json()["notify"] == asked
        owner.tenant.refresh_from_db()  # type: ignore[union-attr]
        assert owner.tenant.watched  # type: ignore[union-attr]
        assert owner.delete("/tenant/notify").status_code == 204
        assert owner.get("/tenant").json()["notify"] is None

    def test_is_refused_what_cannot_be_done(self, owner: Caller) -> None:
        assert faulty_fields(owner.call("PUT", "/tenant/notify", {"on": ["dead"]})) == {"url"}
        assert owner.get("/tenant").json()["notify"] is None


class TestTheHandlers:
    def test_send_an_e_mail(self, job_types: None) -> None:
        ctx = context()
        payload = {"to": "ops@example.com", "subject": "[Carillon] nightly died", "text": "It did."}
        assert run_sync(registry.get("carillon.email"), ctx, payload).kind == "succeeded"
        [sent] = mail.outbox
        assert (sent.to, sent.subject, sent.body) == (["ops@example.com"], payload["subject"], "It did.")
        assert sent.extra_headers["Message-ID"] == f"<{ctx.trigger_id}@carillon>"

    def test_pause_nothing_when_a_target_is_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def gone(*_: Any) -> None:
            raise Permanent("gone", pause_job=True)

        monkeypatch.setattr(notice, "webhook", gone)
        with pytest.raises(Permanent) as raised:
            asyncio.run(notice.notice(context(), None))  # type: ignore[arg-type]
        assert not raised.value.pause_job


class TestSecretsInTheUrl:
    ASKED = {"on": ["dead"], "url": "https://ops.example/{{secret:hook}}"}

    def test_are_to_be_there_when_a_job_or_a_tenant_is_told_of_them(self, owner: Caller) -> None:
        refused = owner.post("/jobs", noop_job(notify=self.ASKED))
        assert faulty_fields(refused) == {"notify.url"}
        assert "There is no secret hook" in refused.content.decode()
        assert faulty_fields(owner.put("/tenant/notify", self.ASKED)) == {"url"}
        put_secret(tenant=owner.tenant, name="hook", value="T0123456/B0123456", hosts=["*"])
        assert owner.post("/jobs", noop_job(notify=self.ASKED)).status_code == 201
        assert owner.put("/tenant/notify", self.ASKED).status_code == 200

    def test_that_were_deleted_since_leave_alone_what_refers_to_them(self, owner: Caller) -> None:
        put_secret(tenant=owner.tenant, name="hook", value="T0123456/B0123456", hosts=["*"])
        job_id = owner.post("/jobs", noop_job(notify=self.ASKED)).json()["id"]
        owner.put("/tenant/notify", self.ASKED)
        delete_secret(tenant=owner.tenant, name="hook")
        assert owner.patch(f"/jobs/{job_id}", {"priority": "low"}).status_code == 200
        assert owner.put("/tenant/notify", self.ASKED).status_code == 200
        other = self.ASKED | {"url": "https://ops.example/2/{{secret:hook}}"}
        assert faulty_fields(owner.patch(f"/jobs/{job_id}", {"notify": other})) == {"notify.url"}
