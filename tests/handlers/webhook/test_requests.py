"""The webhook: what may be asked for, what is sent, and how it is signed."""

import asyncio
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
import standardwebhooks
from aiohttp import web

from jobs.core.errors import InvalidInput
from jobs.handlers import registry
from jobs.handlers.builtin.webhook.request import signature_headers
from jobs.telemetry.traces.w3c import TraceContext

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_" + "QUJD" * 8
SPEC_BODY = (
    '{"type":"contact.created","timestamp":"2022-11-03T20:26:10.344522Z",'
    '"data":{"id":"1f81eb52-5198-4599-803e-771906343485"}}'
)


class TestPayload:
    @pytest.mark.parametrize(
        "url",
        ["", "example.com", "/path", "ftp://example.com/", "file:///etc/passwd", "http://", "http:///x",
         "https://user:pw@example.com/", "https://user@example.com", "https://@example.com/", "http://h:0/",
         "http://h:65536/", "http://h:x/", "http://a b/", "http://h/\r\nX: y", "http://h\\@x/", "http://[::1",
         "http://[v1.fe80::1]/", "http://[127.0.0.1]/", "http://h:+80/", "http://h:\uff18\uff10/", "http://h:8_0/", "http://h:80:80/",
         "http://h/" + "x" * 2048, "http://h/\x00", None, 5],
    )  # fmt: skip
    def test_refuses_urls_that_are_odd(self, url):
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload("webhook", {"url": url})
        assert set(caught.value.errors) == {"payload.url"}

    @pytest.mark.parametrize(
        "url",
        ["http://h", "HTTPS://Example.com:65535/a?b=c@d#e", "http://[2001:db8::1]:1/", "https://bücher.example/ü",
         "https://example.com/{{secret:path}}"],
    )  # fmt: skip
    def test_takes_ordinary_urls(self, url):
        registry.validate_payload("webhook", {"url": url})

    @pytest.mark.parametrize(
        "headers",
        [{"Host": "x"}, {"content-LENGTH": "1"}, {"Transfer-Encoding": "chunked"}, {"Connection": "close"},
         {"Upgrade": "x"}, {"Proxy-Authorization": "x"}, {"TE": "x"}, {"Trailer": "x"}, {"Expect": "x"},
         {"webhook-id": "x"}, {"Webhook-Signature": "x"}, {"X-Carillon-Job": "x"}, {"Idempotency-Key": "x"},
         {"X-Fence-Token": "9"}, {"X-Execution-Id": "x"}, {"a b": "x"}, {"": "x"}, {"a:": "x"}, {"ä": "x"},
         {"a": "line\r\nX: y"}, {"a": "\x00"}, {"a": "ü"}, {"a": 5}, {"a": "x" * 4097}, {"A": "1", "a": "2"},
         {f"h{n}": "x" for n in range(33)}, [], None],
    )  # fmt: skip
    def test_refuses_headers_that_are_not_the_callers(self, headers):
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload("webhook", {"url": "http://h", "headers": headers})
        assert all(path.startswith("payload.headers") for path in caught.value.errors)

    def test_refuses_other_methods_and_fields(self):
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload("webhook", {"url": "http://h", "method": "TRACE", "timeout": 5})
        assert set(caught.value.errors) == {"payload.method", "payload.timeout"}


class TestSignature:
    @pytest.mark.parametrize(
        ("message_id", "timestamp", "text", "expected"),
        [
            ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}',
             "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", 1674087231, SPEC_BODY,
             "v1,ARw42xaAApl/nxRo+iPGYwSaMQaOwMo2eyH5JBRA+bQ="),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30))])
    def test_matches_the_published_vectors_in_any_zone(self, message_id, timestamp, text, expected, zone):
        now = datetime.fromtimestamp(timestamp, zone)
        headers = signature_headers(SECRET, message_id=message_id, text=text, now=now)
        assert headers["webhook-signature"] == expected
        assert headers["webhook-timestamp"] == str(timestamp)

    def test_of_the_standard_vector_verifies_by_the_specifications_own_library(self, monkeypatch):
        class AtItsTime(datetime):
            @classmethod
            def now(cls, tz=None):
                return cls.fromtimestamp(1614265330, tz)

        monkeypatch.setattr(standardwebhooks.webhooks, "datetime", AtItsTime)
        headers = signature_headers(
            SECRET,
            message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
            text='{"test": 2432232314}',
            now=AtItsTime.now(UTC),
        )
        assert standardwebhooks.Webhook(SECRET).verify('{"test": 2432232314}', headers) == {
            "test": 2432232314
        }
        headers["webhook-signature"] = headers["webhook-signature"].replace("J1OE=", "J1OA=")
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            standardwebhooks.Webhook(SECRET).verify('{"test": 2432232314}', headers)

    def test_signs_with_both_secrets_while_they_rotate(self):
        headers = signature_headers(
            f"{SECRET} {OTHER_SECRET}", message_id="trg_1", text="{}", now=datetime.now(UTC)
        )
        for secret in (SECRET, OTHER_SECRET):
            standardwebhooks.Webhook(secret).verify("{}", headers)

    def test_leaves_the_signature_out_where_there_is_no_secret(self):
        headers = signature_headers("", message_id="trg_1", text="{}", now=datetime.now(UTC))
        assert set(headers) == {"webhook-id", "webhook-timestamp"}


class TestRequest:
    def test_carries_the_headers_of_the_design_and_verifies(self, deliver, receiver):
        deliver(
            receiver.url("/hook?x=1"),
            headers={"Authorization": "Bearer t", "user-agent": "mine"},
            body={"kind": "ü", "n": [1, None]},
            context={"signing_secret": SECRET},
        )
        request, body = receiver.requests[0]
        assert (request.method, request.path_qs, json.loads(body)) == (
            "POST",
            "/hook?x=1",
            {"kind": "ü", "n": [1, None]},
        )
        standardwebhooks.Webhook(SECRET).verify(body, dict(request.headers))
        sent = {
            name: request.headers[name]
            for name in request.headers
            if name.startswith(("X-", "Id", "webhook-id"))
        }
        assert sent == {
            "webhook-id": "trg_00000000-0000-0000-0000-000000000002",
            "Idempotency-Key": "job:1:scheduled_for:2026-03-01T12:00:00Z",
            "X-Carillon-Job": "00000000-0000-0000-0000-000000000001",
            "X-Carillon-Trigger": "00000000-0000-0000-0000-000000000002",
            "X-Carillon-Attempt": "2",
            "X-Carillon-Scheduled-For": "2026-03-01T12:00:00Z",
            "X-Fence-Token": "7",
            "X-Execution-Id": "00000000-0000-0000-0000-000000000003",
        }
        assert "." not in sent["webhook-id"]
        assert request.headers.getall("User-Agent") == ["mine"]
        assert request.headers["Content-Type"] == "application/json"
        assert request.headers["Authorization"] == "Bearer t"

    def test_is_part_of_the_attempts_trace(self, deliver, receiver):
        trace = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "congo=t61")
        own = {"Traceparent": "00-mine", "TraceState": "mine=1"}
        deliver(receiver.url(), headers=own, context={"trace": trace})
        deliver(receiver.url(), headers=own, context={"trace": trace._replace(tracestate="")})
        deliver(receiver.url(), context={"trace": None})
        traced, stateless, untraced = (request.headers for request, _ in receiver.requests)
        assert traced.getall("traceparent") == stateless.getall("traceparent") == [trace.traceparent]
        assert traced.getall("tracestate") == ["congo=t61"]
        assert "tracestate" not in stateless
        assert "traceparent" not in untraced

    def test_names_itself_unless_told_otherwise(self, deliver, receiver):
        deliver(receiver.url())
        assert receiver.requests[0][0].headers["User-Agent"].startswith("Carillon/")

    @pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
    def test_uses_the_method_and_sends_no_body_unless_given(self, deliver, receiver, method):
        assert deliver(receiver.url(), method=method, context={"signing_secret": SECRET}).kind == "succeeded"
        request, body = receiver.requests[0]
        assert (request.method, body) == (method, b"")
        standardwebhooks.Webhook(SECRET).verify(b"", dict(request.headers), json_parse=False)

    def test_sends_null_where_null_is_the_body(self, deliver, receiver):
        deliver(receiver.url(), body=None)
        assert receiver.requests[0][1] == b"null"

    def test_keeps_connections_alive_from_batch_to_batch(self, deliver, receiver):
        for _ in range(5):
            deliver(receiver.url())
        assert (len(receiver.requests), len(receiver.connections)) == (5, 1)

    def test_delivers_a_batch_side_by_side(self, open_runner, make_context, receiver):
        arrived = asyncio.Barrier(10)

        async def all_here(_):
            await asyncio.wait_for(arrived.wait(), 5)
            return web.Response()

        receiver.answers["/hook"] = all_here
        ended = []
        call = (registry.get("webhook"), make_context(), {"url": receiver.url()})
        open_runner().run([call] * 10, lambda _, outcome: ended.append(outcome.kind))
        assert ended == ["succeeded"] * 10

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
    def test_are_sent_once_though_the_kept_connection_breaks_under_them(self, deliver, receiver, method):
        """The target may have done its work before it dropped the connection: the policy says whether to repeat."""

        async def work_and_drop(request):
            request.transport.close()
            return web.Response()

        receiver.answers["/drops"] = work_and_drop
        assert deliver(receiver.url("/keeps")).kind == "succeeded"
        ended = deliver(receiver.url("/drops"), method=method)
        assert len(receiver.connections) == 1
        assert (ended.kind, ended.permanent) == ("failed", False)
        assert [request.path for request, _ in receiver.requests] == ["/keeps", "/drops"]

    def test_keeps_no_cookies(self, deliver, receiver):
        deliver(receiver.responds("/hook", headers={"Set-Cookie": "a=b; Path=/"}))
        deliver(receiver.url())
        assert "Cookie" not in receiver.requests[1][0].headers
