"""Secrets in a worker: looked up once a batch, sent, and left behind nowhere."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import standardwebhooks
from aiohttp import web
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.worker.process import THIS
from jobs.handlers.async_runner import AsyncRunner
from jobs.handlers.egress import EgressRules
from tenants.vault import sealing
from tenants.vault.secrets import delete_secret, put_secret
from tenants.vault.signing import rotate_signing_secret
from tests.engine.conftest import Perform
from tests.factories import attempts, make_job, make_tenant, make_trigger, state_of
from tests.handlers.conftest import LOOPBACK, Receiver

pytestmark = pytest.mark.django_db(transaction=True)
VALUE = "s3cr3t-v4lue-of-the-tenant"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    started = Receiver()
    yield started
    started.close()


@pytest.fixture
def outbound(perform: Perform, monkeypatch: pytest.MonkeyPatch) -> Iterator[Perform]:
    """``perform`` with webhooks that may call loopback."""
    runner = AsyncRunner(rules=EgressRules(allow_networks=LOOPBACK))
    monkeypatch.setattr(THIS, "runner", runner)
    yield perform
    runner.close()


def webhook(tenant: Any, url: str, **payload: Any) -> Any:
    job = make_job(tenant, job_type="webhook", payload={"url": url, **payload})
    return make_trigger(job, "queued")


class TestASecret:
    def test_reaches_the_target_and_nothing_that_is_kept(
        self, outbound: Perform, receiver: Receiver, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)

        async def echo(request: web.Request) -> web.Response:
            return web.Response(status=400, text=f"{request.url} {dict(request.headers)} {'x' * 5000}")

        receiver.answers[f"/{VALUE}"] = echo
        tenant = make_tenant()
        put_secret(tenant=tenant, name="token", value=VALUE, hosts=["*"])
        trigger = webhook(
            tenant, receiver.url("/{{secret:token}}"), headers={"Authorization": "Bearer {{secret:token}}"}
        )
        assert outbound(trigger) == {"dead": 1}
        request, _ = receiver.requests[0]
        assert (request.path, request.headers["Authorization"]) == (f"/{VALUE}", f"Bearer {VALUE}")
        [attempt] = attempts(trigger)
        assert "{{secret:token}}" in attempt.response_excerpt
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT t::text FROM jobs_trigger t UNION ALL SELECT a::text FROM jobs_attempt a "
                "UNION ALL SELECT j::text FROM jobs_job j UNION ALL SELECT s::text FROM tenants_secret s"
            )
            stored = "\n".join(text for (text,) in cursor.fetchall())
        assert str(trigger.id) in stored
        assert VALUE not in stored
        ours = [
            record for record in caplog.records if record.name != "aiohttp.access"
        ]  # the receiver's own records
        assert ours
        assert not any(VALUE in str(record.__dict__) for record in ours)

    def test_that_is_gone_buries_its_firing_and_says_so(self, outbound: Perform, receiver: Receiver) -> None:
        tenant = make_tenant()
        put_secret(tenant=tenant, name="token", value=VALUE, hosts=["*"])
        delete_secret(tenant=tenant, name="token")
        trigger = webhook(tenant, receiver.url(), headers={"a": "{{secret:token}}"})
        outbound(trigger)
        assert state_of(trigger) == ("dead", "permanent")
        [attempt] = attempts(trigger)
        assert (attempt.error_code, "'token'" in attempt.error_message) == ("secret_missing", True)
        assert not receiver.requests

    def test_of_another_tenant_is_none_of_ours(self, outbound: Perform, receiver: Receiver) -> None:
        put_secret(tenant=make_tenant(), name="token", value=VALUE, hosts=["*"])
        trigger = webhook(make_tenant(), receiver.url(), headers={"a": "{{secret:token}}"})
        outbound(trigger)
        assert attempts(trigger)[0].error_code == "secret_missing"

    def test_under_a_key_this_worker_lacks_is_retried(
        self, outbound: Perform, receiver: Receiver, settings: Any
    ) -> None:
        tenant = make_tenant()
        put_secret(tenant=tenant, name="token", value=VALUE, hosts=["*"])
        rotate_signing_secret(tenant=tenant)
        settings.ENCRYPTION_KEYS = (b"z" * 32,)
        sealing.forget()
        first = webhook(tenant, receiver.url(), headers={"a": "{{secret:token}}"})
        second = webhook(tenant, receiver.url())
        assert outbound(first, second) == {"retrying": 2}
        assert {attempts(trigger)[0].error_code for trigger in (first, second)} == {"secret_unreadable"}
        assert not receiver.requests

    def test_costs_one_look_up_a_batch_and_none_where_no_payload_names_one(
        self, outbound: Perform, receiver: Receiver
    ) -> None:
        tenants = [make_tenant() for _ in range(3)]
        for tenant in tenants:
            put_secret(tenant=tenant, name="token", value=f"{VALUE}-{tenant.id}", hosts=["*"])
        naming = [
            webhook(tenant, receiver.url(), headers={"a": "{{secret:token}}"}) for tenant in tenants * 3
        ]
        plain = [webhook(tenant, receiver.url()) for tenant in tenants * 3]
        asked = []
        for triggers in (naming, plain):
            with CaptureQueriesContext(connection) as queries:
                outbound(*triggers)
            asked.append(sum("tenants_secret" in query["sql"] for query in queries))
        assert asked == [1, 0]
        sent = sorted(request.headers["a"] for request, _ in receiver.requests if "a" in request.headers)
        assert sent == sorted(f"{VALUE}-{tenant.id}" for tenant in tenants * 3)


class TestAnEcho:
    """Hiding a value makes a text longer if the name is longer. The target's echo decides by how much."""

    async def echo(self, request: web.Request) -> web.Response:
        return web.Response(status=400, text=request.headers["a"] * 256)

    def test_is_cut_after_it_was_hidden_and_costs_no_neighbour(
        self, outbound: Perform, receiver: Receiver
    ) -> None:
        receiver.answers["/echo"] = self.echo
        tenant, other, name = make_tenant(), make_tenant(), "n" * 100
        put_secret(tenant=tenant, name=name, value="12345678", hosts=["*"])
        echoing = webhook(tenant, receiver.url("/echo"), headers={"a": f"{{{{secret:{name}}}}}"})
        neighbours = [webhook(other, receiver.url()) for _ in range(5)]
        assert outbound(echoing, *neighbours) == {"dead": 1, "succeeded": 5}
        [attempt] = attempts(echoing)
        assert (attempt.state, attempt.http_status) == ("failed", 400)
        assert len(attempt.response_excerpt) <= 2048
        assert attempt.response_excerpt.startswith(f"{{{{secret:{name}}}}}" * 10)


class TestASigningSecret:
    def test_signs_for_its_tenant_and_twice_while_it_is_replaced(
        self, outbound: Perform, receiver: Receiver
    ) -> None:
        tenant = make_tenant()
        old = rotate_signing_secret(tenant=tenant)
        new = rotate_signing_secret(tenant=tenant)
        outbound(webhook(tenant, receiver.url(), body={"n": 1}))
        request, body = receiver.requests[0]
        assert len(request.headers["webhook-signature"].split()) == 2
        for secret in (old, new):
            assert standardwebhooks.Webhook(secret).verify(body, dict(request.headers)) == {"n": 1}
