"""Second factors where they are required: an operator without one is led to set one up."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tenants.models import OperatorSession, SecondFactor
from tests.interfaces.signin.second_factor.browser import (
    LOGIN,
    OVERVIEW,
    OWN,
    PASSWORD,
    browser,
    code_of,
    give,
    give_password,
    is_in,
    offer_of,
)

pytestmark = pytest.mark.django_db


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
