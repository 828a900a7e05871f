"""Second factors of operators: asked for after the password, used once, and not asked for where they are off."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from scheduler_project.signin.held import LASTS_SECONDS
from tenants import second_factor
from tenants.models import OperatorSession
from tests.interfaces.signin.second_factor.browser import (
    CODE,
    LOGIN,
    OVERVIEW,
    OWN,
    browser,
    code_of,
    give,
    give_password,
    is_in,
    told,
    wrong,
)

pytestmark = pytest.mark.django_db


class TestSigningIn:
    def test_takes_password_and_code_and_leads_where_one_was_going(self, secret: str) -> None:
        client = browser()
        asked = give_password(client, next="/admin/jobs/job/")
        assert asked["Location"] == CODE
        assert not is_in(client)
        assert not OperatorSession.objects.exists()
        assert "authenticator app" in client.get(CODE).content.decode()
        assert give(client, code_of(secret))["Location"] == "/admin/jobs/job/"
        assert is_in(client)
        assert OperatorSession.objects.get().signed_in_by == "password and code"
        by = {"address": [None, "198.51.100.7"], "by": [None, "password and code"]}
        assert told("signed_in") == [("ops", by)]

    def test_is_refused_with_a_wrong_code_and_that_is_on_the_trail(self, secret: str) -> None:
        client = browser()
        give_password(client)
        refused = give(client, wrong(secret))
        assert "This code is wrong" in refused.content.decode()
        assert not is_in(client)
        tried = {"address": [None, "198.51.100.7"], "code": [None, "wrong"]}
        assert told("sign_in_failed") == [("not signed in", tried)]
        assert give(client, code_of(secret)).status_code == 302  # control

    def test_takes_no_code_before_the_password(self, secret: str) -> None:
        client = browser()
        assert give(client, code_of(secret))["Location"] == LOGIN
        assert client.get(CODE)["Location"] == LOGIN
        assert not is_in(client)

    def test_takes_no_code_with_a_wrong_password(self, secret: str) -> None:
        client = browser()
        client.post(LOGIN, {"username": "ops", "password": "wrong"})
        assert give(client, code_of(secret))["Location"] == LOGIN

    def test_takes_a_code_once(self, secret: str) -> None:
        for expected in (302, 200):
            client = browser()
            give_password(client)
            assert give(client, code_of(secret)).status_code == expected

    @pytest.mark.parametrize(("steps", "status"), [(-2, 200), (-1, 302), (1, 302), (2, 200)])
    def test_takes_codes_of_clocks_a_little_off(self, secret: str, steps: int, status: int) -> None:
        client = browser()
        give_password(client)
        assert give(client, code_of(secret, steps=steps)).status_code == status

    def test_takes_no_code_from_before_the_last_one(self, secret: str) -> None:
        client, other = browser(), browser()
        give_password(client)
        give_password(other)
        assert give(client, code_of(secret, steps=1)).status_code == 302
        assert give(other, code_of(secret)).status_code == 200

    def test_waits_ten_minutes_for_the_code(self, secret: str, clock: Callable[[timedelta], None]) -> None:
        client = browser()
        give_password(client)
        clock(timedelta(seconds=LASTS_SECONDS + 1))
        assert give(client, code_of(secret))["Location"] == LOGIN

    @pytest.mark.parametrize("change", [{"is_active": False}, {"password": "!"}])
    def test_is_over_when_its_operator_changes_meanwhile(
        self, ops: User, secret: str, change: dict[str, Any]
    ) -> None:
        client = browser()
        give_password(client)
        User.objects.filter(pk=ops.pk).update(**change)
        assert give(client, code_of(secret))["Location"] == LOGIN

    def test_goes_to_no_other_host(self, secret: str) -> None:
        client = browser()
        give_password(client, next="https://evil.example.com/")
        assert give(client, code_of(secret))["Location"] == OVERVIEW

    def test_takes_each_recovery_code_once_and_says_how_many_are_left(self, ops: User, secret: str) -> None:
        code = second_factor.new_recovery_codes(operator=ops)[3]
        client = browser()
        give_password(client)
        assert give(client, code.upper().replace("-", " ")).status_code == 302
        assert "9 recovery codes are left" in client.get(OVERVIEW).content.decode()
        assert OperatorSession.objects.get().signed_in_by == "password and recovery code"
        assert told("updated")[-1] == ("ops", {"recovery_codes": [10, 9]})
        other = browser()
        give_password(other)
        assert give(other, code).status_code == 200

    def test_guesses_are_limited_whoever_has_the_password(self, secret: str) -> None:
        client = browser()
        give_password(client)
        # From another address each time: the limit is the operator's.
        answers = [
            client.post(CODE, {"code": wrong(secret)}, REMOTE_ADDR=f"198.51.{n}.1").status_code
            for n in range(12)
        ]
        assert answers == [200] * 10 + [429] * 2
        assert client.post(CODE, {"code": code_of(secret)}, REMOTE_ADDR="198.51.99.1").status_code == 429

    def test_makes_a_new_session_of_the_browsers(self, secret: str) -> None:
        client = browser()
        client.get(LOGIN)
        give_password(client)
        before = client.cookies["sessionid"].value
        give(client, code_of(secret))
        assert client.cookies["sessionid"].value != before

    def test_takes_the_password_alone_without_a_second_factor(self, ops: User) -> None:
        client = browser()
        assert give_password(client)["Location"] == OVERVIEW
        assert is_in(client)
        assert told("signed_in") == [("ops", {"address": [None, "198.51.100.7"]})]
        assert (
            "Please enter the correct username"
            in browser().post(LOGIN, {"username": "ops", "password": "wrong"}).content.decode()
        )


class TestOff:
    @pytest.fixture(autouse=True)
    def off(self, settings: Any, optional: None) -> None:
        settings.SECOND_FACTOR = "off"

    def test_asks_nobody_and_shows_nothing(self, secret: str) -> None:
        client = browser()
        assert give_password(client)["Location"] == OVERVIEW
        assert client.get(OWN).status_code == 404
        assert "Second factor" not in client.get(OVERVIEW).content.decode()

    def test_control_the_page_is_there_where_it_is_on(self, ops: User, settings: Any) -> None:
        settings.SECOND_FACTOR = "optional"
        client = browser()
        give_password(client)
        assert OWN in client.get(OVERVIEW).content.decode()
