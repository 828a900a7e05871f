"""Second factors of operators: set up, replaced and removed on one's own page."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from jobs.models import Change
from tenants import second_factor
from tenants.models import SecondFactor
from tests.interfaces.signin.second_factor.browser import (
    LOGIN,
    OWN,
    PASSWORD,
    STEP,
    browser,
    code_of,
    give,
    give_password,
    is_in,
    offer_of,
    told,
    wrong,
)

pytestmark = pytest.mark.django_db


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
