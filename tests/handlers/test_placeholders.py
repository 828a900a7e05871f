"""``{{secret:name}}``: which text counts as one, where it may stand, and that no value survives its attempt."""

import base64
import html
import json
from urllib.parse import quote

import pytest
import standardwebhooks
from aiohttp import web

from jobs.core.errors import InvalidInput
from jobs.handlers import registry
from jobs.handlers.outcome import Outcome
from jobs.handlers.placeholders import hide

VALUE = 'se"cr&et/va+lue=1'


class TestAPayload:
    @pytest.mark.parametrize(
        "text",
        ["{{secret}}", "{{secret:}}", "{{ secret:a }}", "{{secret:a}", "{{secret:a b}}", "{{SECRET:a}}", "{secret:a}",
         "{{secret:-a}}", "{{secret:" + "a" * 101 + "}}", "{{secret:a}}{{secret:"],
    )  # fmt: skip
    @pytest.mark.parametrize("field", ["url", "headers"])
    def test_with_what_was_meant_for_a_placeholder_is_refused(self, text, field):
        given = {"url": f"http://h/{text}"} if field == "url" else {"url": "http://h", "headers": {"a": text}}
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload("webhook", given)
        assert set(caught.value.errors) == {f"payload.{field}"}

    @pytest.mark.parametrize(
        "url", ["http://{{secret:a}}/", "http://{{secret:a}}", "http://h.{{secret:a}}:80/", "{{secret:a}}://h/",
                "{{secret:a}}", "http://h:{{secret:a}}/", "http://{{secret:a}}?x"],
    )  # fmt: skip
    def test_whose_host_would_be_a_secret_is_refused(self, url):
        with pytest.raises(InvalidInput) as caught:
            registry.validate_payload("webhook", {"url": url})
        assert set(caught.value.errors) == {"payload.url"}

    def test_names_its_secrets_by_field(self):
        payload = {
            "url": "http://h/{{secret:a}}/{{secret:b.c-d_1}}?x={{secret:a}}",
            "headers": {"Authorization": "Bearer {{secret:t}}", "X": "{{other}} {x}"},
            "body": "{{secret:not_here}}",
        }
        registry.validate_payload("webhook", payload)
        assert registry.get("webhook").secrets(payload) == {
            "payload.url": ["a", "b.c-d_1", "a"],
            "payload.headers.Authorization": ["t"],
        }


class TestALongName:
    LONG = {"n" * 100: "12345678"}

    def test_cuts_each_text_to_what_is_kept_of_it(self):
        many = "12345678" * 256
        hidden = hide(Outcome("failed", error_message=many, traceback=many, response_excerpt=many), self.LONG)
        name = "{{secret:" + "n" * 100 + "}}"
        assert hidden.error_message == (name * 256)[:2000]
        assert hidden.response_excerpt == (name * 256)[:2048]
        assert hidden.traceback == (name * 256)[-8192:]

    def test_fails_a_result_that_it_made_too_large(self):
        hidden = hide(Outcome("succeeded", result=["12345678"] * 2000), self.LONG)
        assert (hidden.kind, hidden.error_code, hidden.result) == ("failed", "bad_result", None)
        assert "secret" in hidden.error_message


class TestSending:
    @pytest.fixture
    def send(self, run_one, make_context, receiver):
        def send(secrets, *, url="", **payload):
            context = make_context(secrets=secrets, secret_hosts={name: ["*"] for name in secrets})
            return run_one(registry.get("webhook"), context, {"url": url or receiver.url(), **payload})

        return send

    def test_fills_in_url_and_headers_and_nothing_else(self, send, receiver):
        ended = send(
            {"t": "token-1234", "p": "T0/B1"},
            url=receiver.url("/{{secret:p}}?key={{secret:t}}"),
            headers={"Authorization": "Bearer {{secret:t}}"},
            body={"t": "{{secret:t}}"},
        )
        assert ended.kind == "succeeded"
        request, body = receiver.requests[0]
        assert request.path_qs == "/T0/B1?key=token-1234"
        assert request.headers["Authorization"] == "Bearer token-1234"
        assert json.loads(body) == {"t": "{{secret:t}}"}

    def test_buries_where_a_secret_is_missing_and_names_it(self, send, receiver):
        ended = send({}, headers={"a": "{{secret:gone}}"})
        assert (ended.kind, ended.permanent, ended.error_code) == ("failed", True, "secret_missing")
        assert "'gone'" in ended.error_message
        assert not receiver.requests

    def test_retries_where_no_key_opens_it(self, send, receiver):
        ended = send({"sealed": None}, headers={"a": "{{secret:sealed}}"})
        assert (ended.kind, ended.permanent, ended.error_code) == ("failed", False, "secret_unreadable")
        assert not receiver.requests

    @pytest.mark.parametrize(
        "value",
        ["line\r\nX-Evil: 1", "line\nbreak", "nul\0nul", "x" * 9000, "tab\there there\x7f"],
    )
    @pytest.mark.parametrize("field", ["url", "headers"])
    def test_buries_what_a_value_makes_unfit_without_echoing_it(self, send, receiver, value, field):
        text = "{{secret:odd}}"
        payload = {"url": receiver.url(f"/{text}")} if field == "url" else {"headers": {"a": text}}
        ended = send({"odd": value}, **payload)
        assert (ended.kind, ended.permanent, ended.error_code) == ("failed", True, "secret_unfit")
        assert value not in str(ended)
        assert not receiver.requests

    @pytest.mark.parametrize("value", ["@127.0.0.1/", "\\@other.example/", "//other.example/", "..//..//"])
    def test_sends_to_no_other_host_whatever_the_value(self, send, receiver, value):
        send({"v": value}, url=f"http://127.0.0.1:{receiver.port}/{{{{secret:v}}}}")
        assert all(request.host == f"127.0.0.1:{receiver.port}" for request, _ in receiver.requests)

    def test_signs_what_it_sends(self, run_one, make_context, receiver):
        signing = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        context = make_context(secrets={"t": "token-1234"}, secret_hosts={"t": ["*"]}, signing_secret=signing)
        payload = {"url": receiver.url(), "headers": {"a": "{{secret:t}}"}, "body": {"n": 1}}
        run_one(registry.get("webhook"), context, payload)
        request, body = receiver.requests[0]
        standardwebhooks.Webhook(signing).verify(body, dict(request.headers))

    def test_puts_no_value_into_the_words_of_a_failure(self, send, receiver):
        async def echo(request):
            return web.Response(status=500, text=str(request.url) + str(request.headers))

        receiver.answers["/" + VALUE.partition("/")[0]] = echo
        ended = send({"v": "valuevalue"}, url="http://127.0.0.1:1/{{secret:v}}")
        assert ended.kind == "failed"
        assert "valuevalue" not in str(ended)


class TestHiding:
    BASE64 = base64.b64encode(VALUE.encode()).decode()
    FORMS = (
        VALUE, json.dumps(VALUE)[1:-1], quote(VALUE), quote(VALUE, safe=""), html.escape(VALUE), BASE64,
        BASE64.rstrip("="),
    )  # fmt: skip

    @pytest.mark.parametrize("form", FORMS)
    def test_covers_every_text_of_an_outcome_and_every_form(self, form):
        outcome = Outcome(
            "failed",
            error_message=f"a {form} b",
            traceback=f"{form}\n{form}",
            response_excerpt=f'{{"echo": "{form}"}}',
            result={form: [form, {"x": f"-{form}-"}], "n": 5},
        )
        hidden = hide(outcome, {"v": VALUE})
        assert form.rstrip("=") not in str(hidden)
        assert hidden.response_excerpt.startswith('{"echo": "{{secret:v}}')
        assert hidden.result["n"] == 5

    def test_covers_what_was_cut_in_the_middle(self):
        text = "x" * 2000
        hidden = hide(
            Outcome("failed", response_excerpt=text + VALUE[:9], traceback=VALUE[5:] + text), {"v": VALUE}
        )
        assert hidden.response_excerpt == text + "{{secret:v}}"
        assert hidden.traceback == "{{secret:v}}" + text

    def test_hides_the_longer_of_two_values_first(self):
        hidden = hide(
            Outcome("failed", error_message="abcdefgh-ijkl"), {"a": "abcdefgh", "b": "abcdefgh-ijkl"}
        )
        assert hidden.error_message == "{{secret:b}}"
