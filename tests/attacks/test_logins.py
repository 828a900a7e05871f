"""Logins of the console: guessed passwords, sessions that outlive their user's wish, and keys that lie in cookies."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.test import Client

from jobs.models import Change
from scheduler_project.web import logins
from tests.factories import make_tenant
from tests.interfaces.admin.world import signed_in

pytestmark = pytest.mark.django_db
PASSWORD = "right-horse-9"


@pytest.fixture
def ops() -> User:
    return User.objects.create_superuser("ops", password=PASSWORD)


@pytest.fixture
def no_tries(no_tries: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the trail limited."""
    monkeypatch.setattr(logins, "UNKNOWN_PER_SECOND", 1_000.0)


def _try(password: str, *, name: str = "ops", address: str = "198.51.100.7") -> int:
    answer = Client(REMOTE_ADDR=address).post("/admin/login/", {"username": name, "password": password})
    return answer.status_code


@pytest.mark.usefixtures("no_tries")
class TestGuesses:
    def test_of_an_address_are_limited_and_the_right_one_too(self, ops: User) -> None:
        assert [_try(f"wrong-{n}") for n in range(12)] == [200] * 10 + [429] * 2
        assert _try(PASSWORD) == 429
        assert _try(PASSWORD, address="198.51.100.8") == 302

    def test_control_without_the_limit_find_it(self, ops: User, settings: Any) -> None:
        settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if not name.endswith("limit_logins")]
        assert [_try(f"wrong-{n}") for n in range(12)] == [200] * 12
        assert _try(PASSWORD) == 302

    def test_of_many_addresses_are_limited_by_the_name_they_guess_for(self, ops: User) -> None:
        answers = [_try("wrong", address=f"198.51.{n}.1") for n in range(logins.USER_BURST + 3)]
        assert answers == [200] * logins.USER_BURST + [429] * 3
        assert _try("wrong", name="another", address="198.51.0.1") == 200

    def test_of_one_network_of_ipv6_are_one_callers(self, ops: User) -> None:
        answers = [_try("wrong", address=f"2001:db8::{n:x}") for n in range(12)]
        assert answers == [200] * 10 + [429] * 2

    def test_behind_a_proxy_are_counted_by_its_callers(self, ops: User) -> None:
        def behind(proxy: str, said: str) -> int:
            client = Client(REMOTE_ADDR=proxy, headers={"X-Forwarded-For": said})
            return client.post("/admin/login/", {"username": "ops", "password": "wrong"}).status_code

        # The last hop is the proxy's own word; the hops before it are the caller's.
        assert [behind("127.0.0.1", f"192.0.2.{n}, 198.51.100.9") for n in range(11)] == [200] * 10 + [429]
        assert behind("127.0.0.1", "198.51.100.10") == 200
        # This is no proxy of ours: its word counts for nothing.
        assert [behind("203.0.113.1", f"192.0.2.{n}") for n in range(11)] == [200] * 10 + [429]


@pytest.mark.usefixtures("no_tries")
class TestTheLog:
    @pytest.fixture
    def said(self, caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
        caplog.set_level(logging.INFO, "carillon")
        return lambda: [record.msg for record in caplog.records if record.name == "carillon"]

    def test_has_a_line_for_each_with_the_address(self, ops: User, said) -> None:
        _try("wrong")
        _try(PASSWORD)
        lines = [(line["event"], line["user"], line["address"]) for line in said()]
        assert lines == [("login failed", "ops", "198.51.100.7"), ("login", "ops", "198.51.100.7")]

    def test_has_no_password_even_in_the_wrong_field(self, ops: User, said) -> None:
        _try("x", name=PASSWORD)
        assert [line["user"] for line in said()] == ["(nobody)"]
        assert PASSWORD not in str(said())

    def test_of_refusals_has_one_line_for_many(self, ops: User, said) -> None:
        for n in range(15):
            _try(f"wrong-{n}")
        assert [line["event"] for line in said()].count("logins refused") <= 1


@pytest.mark.usefixtures("no_tries")
class TestTheTrail:
    def test_has_failures_with_the_address_and_no_name_that_nobody_has(self, ops: User) -> None:
        _try("wrong")
        _try("x", name=PASSWORD)
        failed = Change.objects.filter(action="sign_in_failed").order_by("id")
        address = {"address": [None, "198.51.100.7"]}
        assert [(one.name, one.object_id, one.changes) for one in failed] == [
            ("ops", str(ops.pk), address),
            ("(nobody)", "", address),
        ]
        assert {one.actor for one in failed} == {"not signed in"}

    def test_has_sign_ins_and_sign_outs(self, ops: User) -> None:
        client = Client(REMOTE_ADDR="198.51.100.7")
        client.post("/admin/login/", {"username": "ops", "password": PASSWORD})
        client.post("/admin/logout/")
        told = Change.objects.filter(action__in=("signed_in", "signed_out")).order_by("id")
        assert [(one.action, one.actor, one.changes) for one in told] == [
            ("signed_in", "ops", {"address": [None, "198.51.100.7"]}),
            ("signed_out", "ops", {"address": ["198.51.100.7", None]}),
        ]


class TestKeysShownOnce:
    def _made(self, client: Client) -> Any:
        form = {"tenant": make_tenant().pk, "name": "ci", "scopes": ["read"]}
        answer = client.post("/admin/tenants/apikey/add/", form)
        assert answer.status_code == 302, answer.content
        return answer

    def test_are_in_no_cookie(self) -> None:
        client = signed_in("view_apikey", "add_apikey", "view_tenant")
        answer = self._made(client)
        assert set(answer.cookies) <= {"sessionid"}
        shown = [str(message) for message in get_messages(client.get("/admin/tenants/apikey/").wsgi_request)]
        assert sum("copy it now" in message for message in shown) == 1
        assert not list(get_messages(client.get("/admin/tenants/apikey/").wsgi_request))

    def test_control_with_djangos_own_storage_are(self, settings: Any) -> None:
        settings.MESSAGE_STORAGE = "django.contrib.messages.storage.fallback.FallbackStorage"
        client = signed_in("view_apikey", "add_apikey", "view_tenant")
        assert "messages" in self._made(client).cookies


@pytest.mark.usefixtures("no_tries")
class TestSessions:
    def test_end_after_eight_hours(self, ops: User) -> None:
        client = Client()
        client.post("/admin/login/", {"username": "ops", "password": PASSWORD})
        assert client.cookies["sessionid"]["max-age"] == 8 * 3600

    def test_end_everywhere_when_their_user_is_signed_out(self, ops: User) -> None:
        other = User.objects.create_superuser("other", password=PASSWORD)
        here, there, others = Client(), Client(), Client()
        for client, user in ((here, ops), (there, ops), (others, other)):
            client.force_login(user)
        act = {"action": "sign_out_everywhere", "_selected_action": [ops.pk]}
        assert others.post("/admin/auth/user/", act).status_code == 302
        assert [client.get("/admin/").status_code for client in (here, there, others)] == [302, 302, 200]

    def test_of_those_who_may_do_more_stay(self, ops: User) -> None:
        root = Client()
        root.force_login(ops)
        clerk = signed_in("view_user", "change_user")
        clerk.post("/admin/auth/user/", {"action": "sign_out_everywhere", "_selected_action": [ops.pk]})
        assert root.get("/admin/").status_code == 200
