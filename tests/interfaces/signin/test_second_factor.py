"""Second factors of operators: set up, asked for after the password, used once, replaced, removed and reset."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from jobs.limits import shared_buckets
from jobs.models import Change
from scheduler_project.signin.held import LASTS_SECONDS
from scheduler_project.web import logins
from tenants import second_factor
from tenants.console.operators import reset_second_factor
from tenants.models import OperatorSession, SecondFactor
from tests.interfaces.admin.world import CONFIRMED, press, signed_in

pytestmark = pytest.mark.django_db
PASSWORD = "right-horse-9"
OVERVIEW, LOGIN, CODE, OWN = "/admin/", "/admin/login/", "/admin/login/code/", "/admin/second-factor/"
STEP = timedelta(seconds=second_factor.STEP_SECONDS)


@pytest.fixture(autouse=True)
def optional(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.SECOND_FACTOR = "optional"


@pytest.fixture(autouse=True)
def one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one step of 30 s, however long the test takes."""
    monkeypatch.setattr(second_factor, "present_step", lambda: 63_000_000)


@pytest.fixture(autouse=True)
def no_tries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Buckets of this test's own: nobody has tried anything."""
    buckets_of, mine = logins._buckets_of, uuid4()
    monkeypatch.setattr(
        logins,
        "_buckets_of",
        lambda *asked: [replace(bucket, key=f"{bucket.key}:{mine}") for bucket in buckets_of(*asked)],
    )
    yield
    shared_buckets.cache_clear()


@pytest.fixture
def required(settings: Any, optional: None) -> None:
    settings.SECOND_FACTOR = "required"


@pytest.fixture
def ops() -> User:
    return User.objects.create_superuser("ops", password=PASSWORD)


@pytest.fixture
def secret(ops: User) -> str:
    """Of the app that ``ops`` has; its code of two steps ago is used."""
    text = second_factor.new_secret()
    second_factor.set_up(operator=ops, secret=text, code=code_of(text))
    SecondFactor.objects.update(used_step=second_factor.present_step() - 2)
    return text


def code_of(secret: str, *, steps: int = 0) -> str:
    return second_factor.code_at(secret, second_factor.present_step() + steps)


def wrong(secret: str) -> str:
    near = {code_of(secret, steps=steps) for steps in (-1, 0, 1)}
    return next(code for code in ("000000", "111111", "222222", "333333") if code not in near)


def browser() -> Client:
    return Client(REMOTE_ADDR="198.51.100.7")


def give_password(client: Client, **more: str) -> HttpResponse:
    return client.post(LOGIN, {"username": "ops", "password": PASSWORD, **more})


def give(client: Client, code: str) -> HttpResponse:
    return client.post(CODE, {"code": code})


def is_in(client: Client) -> bool:
    return client.get(OVERVIEW).status_code == 200


def told(action: str) -> list[tuple[str, dict[str, Any]]]:
    rows = Change.objects.filter(kind="user", name="ops", action=action).order_by("id")
    return [(row.actor, row.changes) for row in rows]


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


def offer_of(page: HttpResponse) -> tuple[str, str]:
    """What the form carries, and the secret that it shows."""
    text = page.content.decode()
    offer = re.search(r'name="offer" value="([^"]+)"', text)
    shown = re.search(r'id="secret">([A-Z2-7 ]+)<', text)
    assert offer
    assert shown
    return offer[1], shown[1].replace(" ", "")


class TestOnesOwnPage:
    @pytest.fixture
    def client(self, ops: User) -> Client:
        client = browser()
        give_password(client)
        return client

    def set_up(self, client: Client, **changes: str) -> HttpResponse:
        offer, secret = offer_of(client.get(OWN))
        sent = {"do": "set_up", "offer": offer, "code": code_of(secret), "password": PASSWORD}
        return client.post(OWN, sent | changes)

    def test_offers_a_secret_as_picture_link_and_text(self, client: Client) -> None:
        page = client.get(OWN)
        _, secret = offer_of(page)
        text = page.content.decode()
        assert "otpauth://totp/Carillon:ops?" in text
        assert f"secret={secret}" in text
        assert "<svg" in text
        assert not SecondFactor.objects.exists()
        assert offer_of(client.get(OWN))[1] != secret

    def test_sets_it_up_with_code_and_password_and_shows_recovery_codes_once(
        self, ops: User, client: Client
    ) -> None:
        other = browser()
        give_password(other)
        done = self.set_up(client).content.decode()
        codes = re.findall(r"<li>((?:[a-z2-7]{4}-){3}[a-z2-7]{4})</li>", done)
        assert len(set(codes)) == second_factor.RECOVERY_CODES
        assert is_in(client)
        assert not is_in(other)
        page = client.get(OWN).content.decode()
        assert "10 recovery codes left" in page
        assert not [code for code in codes if code in page]
        [(actor, changes)] = told("updated")[-1:]
        assert (actor, list(changes)) == ("ops", ["second_factor"])
        again = browser()
        give_password(again)
        assert give(again, codes[0]).status_code == 302

    def test_keeps_nothing_that_opens_the_console(self, ops: User, client: Client) -> None:
        offer, secret = offer_of(client.get(OWN))
        sent = {"do": "set_up", "offer": offer, "code": code_of(secret), "password": PASSWORD}
        codes = re.findall(r"<li>([a-z2-7-]{19})</li>", client.post(OWN, sent).content.decode())
        row = SecondFactor.objects.get()
        kept = f"{row.sealed} {row.recovery} {list(Change.objects.values_list('changes', flat=True))}"
        assert codes
        assert not [
            text for text in (secret, *codes, *(code.replace("-", "") for code in codes)) if text in kept
        ]

    @pytest.mark.parametrize(
        "changes", [{"password": "wrong"}, {"code": "12345"}, {"offer": "v1.00000000.AAAA"}]
    )
    def test_sets_nothing_up_otherwise(self, client: Client, changes: dict[str, str]) -> None:
        assert self.set_up(client, **changes).status_code == 200
        assert not SecondFactor.objects.exists()

    def test_offers_the_same_secret_after_a_wrong_code(self, client: Client) -> None:
        offer, secret = offer_of(client.get(OWN))
        sent = {"do": "set_up", "offer": offer, "code": wrong(secret), "password": PASSWORD}
        refused = client.post(OWN, sent)
        assert "not the code that the app shows" in refused.content.decode()
        assert offer_of(refused) == (offer, secret)
        assert client.post(OWN, sent | {"code": code_of(secret)}).context["codes"]

    def test_takes_no_offer_made_to_another_operator(self, client: Client) -> None:
        other = User.objects.create_superuser("other", password=PASSWORD)
        offer = second_factor.offered(other)
        code = code_of(second_factor.open_offer(other, offer))
        assert self.set_up(client, offer=offer, code=code).status_code == 200
        assert not SecondFactor.objects.exists()

    def test_spends_the_code_that_set_it_up(self, client: Client) -> None:
        offer, secret = offer_of(client.get(OWN))
        sent = {"do": "set_up", "offer": offer, "code": code_of(secret), "password": PASSWORD}
        client.post(OWN, sent)
        again = browser()
        give_password(again)
        assert give(again, code_of(secret)).status_code == 200

    def test_replaces_it(self, client: Client, clock: Callable[[timedelta], None]) -> None:
        self.set_up(client)
        before = SecondFactor.objects.get()
        clock(STEP)
        offer, secret = offer_of(client.get(OWN, {"replace": ""}))
        sent = {"do": "set_up", "offer": offer, "code": code_of(secret), "password": PASSWORD}
        assert client.post(f"{OWN}?replace", sent).context["codes"]
        after = SecondFactor.objects.get()
        assert after.sealed != before.sealed
        assert not {*after.recovery} & {*before.recovery}
        assert None not in told("updated")[-1][1]["second_factor"]

    def test_makes_new_recovery_codes_and_voids_the_others(self, ops: User, client: Client) -> None:
        self.set_up(client)
        before = SecondFactor.objects.get().recovery
        assert "not your password" in client.post(OWN, {"do": "codes", "password": "x"}).content.decode()
        assert SecondFactor.objects.get().recovery == before
        assert len(client.post(OWN, {"do": "codes", "password": PASSWORD}).context["codes"]) == 10
        assert not {*SecondFactor.objects.get().recovery} & {*before}

    def test_removes_it_with_the_password(self, client: Client) -> None:
        self.set_up(client)
        assert "not your password" in client.post(OWN, {"do": "remove", "password": "x"}).content.decode()
        assert SecondFactor.objects.exists()
        client.post(OWN, {"do": "remove", "password": PASSWORD})
        assert not SecondFactor.objects.exists()
        assert is_in(client)
        assert told("updated")[-1][1]["second_factor"][1] is None

    def test_limits_guesses_at_the_password(self, client: Client) -> None:
        self.set_up(client)
        answers = [client.post(OWN, {"do": "remove", "password": "x"}).status_code for _ in range(12)]
        assert answers[-1] == 429
        assert SecondFactor.objects.exists()

    def test_is_for_those_who_are_signed_in(self) -> None:
        assert browser().get(OWN)["Location"].startswith(LOGIN)


class TestTheGate:
    def test_leads_who_has_none_to_set_it_up_where_it_is_required(self, required: None, ops: User) -> None:
        client = browser()
        give_password(client)
        for page in (OVERVIEW, "/admin/jobs/job/", "/admin/password_change/"):
            assert client.get(page)["Location"] == OWN
        part = client.get(OVERVIEW, headers={"HX-Request": "true"})
        assert part["HX-Redirect"] == OWN
        assert "Operators need a second factor here" in client.get(OWN).content.decode()
        offer, secret = offer_of(client.get(OWN))
        sent = {"do": "set_up", "offer": offer, "code": code_of(secret), "password": PASSWORD}
        assert client.post(OWN, sent).status_code == 200
        assert is_in(client)

    def test_takes_no_removal_where_it_is_required(self, required: None, ops: User, secret: str) -> None:
        client = browser()
        give_password(client)
        give(client, code_of(secret))
        assert "Remove" not in client.get(OWN).content.decode()
        client.post(OWN, {"do": "remove", "password": PASSWORD})
        assert SecondFactor.objects.exists()

    def test_lets_who_has_none_sign_out(self, required: None, ops: User) -> None:
        client = browser()
        give_password(client)
        assert client.post("/admin/logout/").status_code == 200
        assert not OperatorSession.objects.exists()

    def test_ends_sessions_that_began_without_it(self, ops: User, secret: str) -> None:
        client = browser()
        client.force_login(ops)
        assert client.get("/admin/jobs/job/")["Location"].startswith(LOGIN)
        assert not OperatorSession.objects.exists()
        assert "has a second factor" in client.get(LOGIN).content.decode()

    def test_asks_nothing_of_the_api(self, required: None) -> None:
        assert Client().get("/api/v1/jobs").status_code == 401
        assert Client().get("/livez").status_code == 200


class TestResetting:
    def page(self, client: Client, user: User) -> str:
        return client.get(reverse("admin:auth_user_change", args=[user.pk])).content.decode()

    def test_by_an_access_administrator_ends_all_sessions(self, ops: User, secret: str) -> None:
        User.objects.filter(pk=ops.pk).update(is_superuser=False)
        theirs = browser()
        give_password(theirs)
        give(theirs, code_of(secret))
        administrator = signed_in("view_user", "change_user")
        assert "Reset second factor" in self.page(administrator, ops)
        press(administrator, "auth_user_reset_second_factor", ops)
        assert not SecondFactor.objects.exists()
        assert not is_in(theirs)
        [change] = Change.objects.filter(name="ops", changes__has_key="second_factor").order_by("-id")[:1]
        assert change.actor.startswith("staff-")
        assert "Reset second factor" not in self.page(administrator, ops)

    def test_is_not_for_those_who_may_do_less_nor_for_oneself(self, ops: User, secret: str) -> None:
        administrator = signed_in("view_user", "change_user")
        url = reverse("admin:auth_user_reset_second_factor", args=[ops.pk])
        assert administrator.post(url, CONFIRMED).status_code == 403  # a superuser's
        client = browser()
        give_password(client)
        give(client, code_of(secret))
        assert "Reset second factor" not in self.page(client, ops)
        assert client.post(url, CONFIRMED).status_code == 403
        assert SecondFactor.objects.exists()

    def test_by_command(self, ops: User, secret: str) -> None:
        out = StringIO()
        call_command("reset_second_factor", "ops", stdout=out)
        assert not SecondFactor.objects.exists()
        assert "ops has no second factor any more" in out.getvalue()
        assert not reset_second_factor(ops)
        with pytest.raises(CommandError, match="no operator 'nobody'"):
            call_command("reset_second_factor", "nobody")

    def test_takes_what_an_operators_deletion_takes(self, ops: User, secret: str) -> None:
        root = signed_in()
        User.objects.exclude(pk=ops.pk).update(is_superuser=True)
        root.post(reverse("admin:auth_user_delete", args=[ops.pk]), {"post": "yes"})
        assert not User.objects.filter(pk=ops.pk).exists()


class TestTheSecret:
    def test_gives_the_codes_of_the_standard(self) -> None:
        """RFC 6238, appendix B, SHA-1, the last six digits."""
        secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
        assert second_factor.code_at(secret, 59 // 30) == "287082"
        assert second_factor.code_at(secret, 1111111109 // 30) == "081804"
        assert second_factor.code_at(secret, 20000000000 // 30) == "353130"

    def test_is_opened_for_no_other_operator(self, ops: User, secret: str) -> None:
        other = User.objects.create_user("other")
        row = SecondFactor.objects.get()
        SecondFactor.objects.filter(pk=row.pk).update(operator=other)
        assert second_factor.passed_by(operator=other, code=code_of(secret)) == ""

    def test_needs_a_code_to_be_set_up(self, ops: User) -> None:
        with pytest.raises(ValidationError, match="not the code"):
            second_factor.set_up(operator=ops, secret=second_factor.new_secret(), code="")

    def test_may_be_lost_and_recovery_codes_still_are_there(self, ops: User, secret: str) -> None:
        [code, *_] = second_factor.new_recovery_codes(operator=ops)
        SecondFactor.objects.update(sealed="v1.00000000.AAAA")
        assert second_factor.passed_by(operator=ops, code=code_of(secret)) == ""
        assert second_factor.passed_by(operator=ops, code=code) == second_factor.BY_RECOVERY_CODE
