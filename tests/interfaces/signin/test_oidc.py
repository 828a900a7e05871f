"""Single sign-on: operators that the provider names get in, no others do, and unsound answers are refused."""

import http.client
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from joserfc.jwk import OctKey, RSAKey

from jobs.models import Change
from scheduler_project.environment import Oidc
from scheduler_project.signin import oidc
from tenants import second_factor
from tenants.models import OperatorIdentity, OperatorSession
from tests.interfaces.admin.world import signed_in
from tests.interfaces.signin.provider import CLIENT_ID, CLIENT_SECRET, Provider, provider

pytestmark = pytest.mark.django_db
PASSWORD = "right-horse-9"
LOGIN, START, BACK = "/admin/login/", "/admin/login/oidc/", "/admin/login/oidc/back/"


@pytest.fixture
def idp(settings: Any, no_tries: None) -> Iterator[Provider]:
    with provider() as server:
        settings.OIDC = Oidc(server.issuer, CLIENT_ID, CLIENT_SECRET, "Example ID")
        yield server
    oidc._made.cache_clear()


@pytest.fixture
def ops() -> User:
    return User.objects.create_superuser("ops", email="ops@example.org", password=PASSWORD)


@pytest.fixture
def linked(idp: Provider, ops: User) -> User:
    OperatorIdentity.objects.create(operator=ops, issuer=idp.issuer, subject="subject-1")
    return ops


def browser() -> Client:
    return Client(REMOTE_ADDR="198.51.100.7")


def at_provider(url: str) -> str:
    """The address to which the provider's page leads a browser that is signed in there."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request("GET", f"{parts.path}?{parts.query}")
    location = connection.getresponse().headers["Location"]
    connection.close()
    return f"{urlsplit(location).path}?{urlsplit(location).query}"


def go(client: Client, **start: str) -> HttpResponse:
    """Go to the provider and back."""
    return client.get(at_provider(client.get(START, start)["Location"]))


def is_in(client: Client) -> bool:
    return client.get("/admin/").status_code == 200


def told(action: str) -> list[tuple[str, str, dict[str, Any]]]:
    rows = Change.objects.filter(kind="user", action=action).exclude(changes={}).order_by("id")
    return [(row.name, row.actor, row.changes) for row in rows]


class TestSigningIn:
    def test_lets_a_linked_operator_in_and_leads_where_they_were_going(
        self, idp: Provider, linked: User
    ) -> None:
        client = browser()
        assert go(client, next="/admin/jobs/job/")["Location"] == "/admin/jobs/job/"
        assert is_in(client)
        session = OperatorSession.objects.get()
        assert (session.operator, session.signed_in_by) == (linked, "single sign-on")
        by = {"address": [None, "198.51.100.7"], "by": [None, "single sign-on"]}
        assert told("signed_in") == [("ops", "ops", by)]

    def test_asks_with_state_nonce_and_challenge(self, idp: Provider) -> None:
        asked = parse_qs(urlsplit(browser().get(START)["Location"]).query)
        assert asked["scope"] == ["openid email"]
        assert asked["code_challenge_method"] == ["S256"]
        assert {"state", "nonce", "code_challenge"} <= set(asked)
        assert "code_verifier" not in asked

    def test_goes_to_no_other_host(self, idp: Provider, linked: User) -> None:
        assert go(browser(), next="https://evil.example.com/")["Location"] == "/admin/"

    def test_takes_an_answer_once(self, idp: Provider, linked: User) -> None:
        client = browser()
        back = at_provider(client.get(START)["Location"])
        assert client.get(back).status_code == 302
        assert client.get(back).status_code == 502

    def test_takes_no_answer_to_another_browser(self, idp: Provider, linked: User) -> None:
        back = at_provider(browser().get(START)["Location"])
        other = browser()
        other.get(START)
        assert other.get(back).status_code == 502
        assert not is_in(other)

    def test_asks_for_no_second_factor_of_ours(self, idp: Provider, linked: User, settings: Any) -> None:
        settings.SECOND_FACTOR = "required"
        text = second_factor.new_secret()
        code = second_factor.code_at(text, second_factor.present_step())
        second_factor.set_up(operator=linked, secret=text, code=code)
        client = browser()
        go(client)
        assert is_in(client)

    def test_tells_the_secret_as_the_provider_wants_it(self, idp: Provider, linked: User) -> None:
        idp.ways = ["client_secret_post"]
        assert go(browser()).status_code == 302

    def test_holds_operators_to_their_rights(self, idp: Provider, linked: User) -> None:
        User.objects.filter(pk=linked.pk).update(is_superuser=False)
        client = browser()
        go(client)
        assert client.get(reverse("admin:jobs_job_changelist")).status_code == 403


class TestWhoIsNotLinked:
    def test_is_refused_with_a_page_that_names_the_subject(self, idp: Provider, ops: User) -> None:
        client = browser()
        refused = go(client)
        assert refused.status_code == 403
        assert "subject-1" in refused.content.decode()
        assert not is_in(client)
        assert User.objects.count() == 1
        tried = {
            "address": [None, "198.51.100.7"],
            "by": [None, "single sign-on"],
            "subject": [None, "subject-1"],
        }
        assert told("sign_in_failed") == [("(nobody)", "not signed in", tried)]

    @pytest.mark.parametrize("subject", ["x" * 256, "a\0b"])
    def test_is_refused_with_a_subject_that_cannot_be_kept(
        self, idp: Provider, ops: User, subject: str
    ) -> None:
        idp.person = {"sub": subject, "email": "ops@example.org", "email_verified": True}
        assert go(browser()).status_code == 403
        assert not OperatorIdentity.objects.exists()

    def test_is_linked_by_a_verified_address_that_one_operator_has(self, idp: Provider, ops: User) -> None:
        idp.person |= {"email": "Ops@example.org", "email_verified": True}
        client = browser()
        go(client)
        assert is_in(client)
        assert OperatorIdentity.objects.get().operator == ops
        assert ("ops", "operator", {"single_sign_on": [None, "subject-1"]}) in [
            (name, Change.objects.get(changes__has_key="single_sign_on").actor_kind, changes)
            for name, _, changes in told("updated")
        ]
        # From now on only the subject counts.
        idp.person = {"sub": "subject-1", "email": "another@example.org"}
        again = browser()
        go(again)
        assert is_in(again)

    @pytest.mark.parametrize(
        "claims",
        [
            {"email": "ops@example.org"},
            {"email": "ops@example.org", "email_verified": False},
            {"email": "", "email_verified": True},
            {"email": ["ops@example.org"], "email_verified": True},
            {"email": "op\u017f@example.org", "email_verified": True},
            {"email_verified": True},
        ],
    )
    def test_is_linked_by_no_other_claim(self, idp: Provider, ops: User, claims: dict[str, Any]) -> None:
        idp.person |= claims
        assert go(browser()).status_code == 403
        assert not OperatorIdentity.objects.exists()

    def test_is_linked_to_none_of_two_with_one_address(self, idp: Provider, ops: User) -> None:
        User.objects.create_user("twin", email="OPS@example.org", is_staff=True)
        idp.person |= {"email": "ops@example.org", "email_verified": True}
        assert go(browser()).status_code == 403

    def test_takes_no_operator_who_is_linked_to_another_subject(self, idp: Provider, linked: User) -> None:
        idp.person = {"sub": "subject-2", "email": "ops@example.org", "email_verified": True}
        assert go(browser()).status_code == 403
        assert OperatorIdentity.objects.get().subject == "subject-1"

    @pytest.mark.parametrize("change", [{"is_active": False}, {"is_staff": False}])
    def test_is_as_good_as_who_may_not_sign_in(
        self, idp: Provider, linked: User, change: dict[str, bool]
    ) -> None:
        User.objects.filter(pk=linked.pk).update(**change)
        assert go(browser()).status_code == 403

    def test_is_whoever_is_linked_at_another_issuer(self, idp: Provider, linked: User) -> None:
        OperatorIdentity.objects.update(issuer="https://before.example.org")
        assert go(browser()).status_code == 403


class TestAnswersThatAreNotSound:
    @pytest.mark.parametrize(
        "bent",
        [
            {"iss": "https://evil.example.com"},
            {"aud": "another-client"},
            {"aud": "another-client", "azp": CLIENT_ID},
            {"nonce": "another"},
            {"nonce": None},
            {"sub": None},
            {"exp": None},
            {"exp": int(time.time()) - 3600},
        ],
        ids=lambda bent: "-".join(bent),
    )
    def test_are_refused_by_their_claims(self, idp: Provider, linked: User, bent: dict[str, Any]) -> None:
        idp.bent = bent
        client = browser()
        assert go(client).status_code == 502
        assert not is_in(client)

    def test_are_refused_by_their_signature(self, idp: Provider, linked: User) -> None:
        forged = RSAKey.generate_key(2048, {"kid": "one"})
        secret = OctKey.import_key(CLIENT_SECRET)
        for key, header in (
            (forged, {"alg": "RS256", "kid": "one"}),
            (secret, {"alg": "HS256", "kid": "one"}),
            (secret, {"alg": "none"}),
        ):
            idp.signs_with, idp.header = key, header
            client = browser()
            assert go(client).status_code == 502, header
            assert not is_in(client)
        idp.signs_with, idp.header = idp.key, {"alg": "RS256", "kid": "one"}
        assert go(browser()).status_code == 302  # control

    def test_are_refused_of_a_provider_by_another_name(self, idp: Provider, linked: User) -> None:
        idp.calls_itself = "https://other.example.org"
        assert browser().get(START).status_code == 502
        idp.calls_itself = idp.issuer
        assert browser().get(START).status_code == 302

    def test_are_taken_after_the_keys_have_changed(self, idp: Provider, linked: User) -> None:
        go(browser())
        idp.key = RSAKey.generate_key(2048, {"kid": "two", "use": "sig", "alg": "RS256"})
        idp.signs_with, idp.header = idp.key, {"alg": "RS256", "kid": "two"}
        assert go(browser()).status_code == 302

    def test_that_never_come_leave_passwords_as_they_are(self, idp: Provider, linked: User) -> None:
        idp.is_away = True
        refused = browser().get(START)
        assert refused.status_code == 502
        assert "Back to the login" in refused.content.decode()
        client = browser()
        client.post(LOGIN, {"username": "ops", "password": PASSWORD})
        assert is_in(client)

    def test_of_refusal_say_so(self, idp: Provider) -> None:
        refused = browser().get(BACK, {"error": "access_denied", "error_description": "<b>no</b>"})
        assert refused.status_code == 403
        assert "<b>no" not in refused.content.decode()

    def test_are_limited_by_address(self, idp: Provider, linked: User) -> None:
        answers = [browser().get(BACK, {"code": "x", "state": "y"}).status_code for _ in range(12)]
        assert answers == [502] * 10 + [429] * 2


class TestTheLoginPage:
    def test_leads_to_the_provider(self, idp: Provider) -> None:
        page = browser().get(LOGIN, {"next": "/admin/jobs/job/"}).content.decode()
        assert "Sign in by Example ID" in page
        assert "/admin/login/oidc/?next=%2Fadmin%2Fjobs%2Fjob%2F" in page
        assert 'name="password"' in page

    def test_takes_no_password_where_they_are_off(self, idp: Provider, ops: User, settings: Any) -> None:
        settings.PASSWORD_SIGN_IN = False
        client = browser()
        page = client.get(LOGIN).content.decode()
        assert 'name="password"' not in page
        assert "Sign in by Example ID" in page
        sent = {"username": "ops", "password": PASSWORD}
        assert "switched off" in client.post(LOGIN, sent, follow=True).content.decode()
        assert not is_in(client)

    @pytest.mark.parametrize("page", [START, BACK])
    def test_is_as_it_was_without_a_provider(self, page: str) -> None:
        assert "Sign in by" not in browser().get(LOGIN).content.decode()
        assert browser().get(page).status_code == 404


class TestLinking:
    @staticmethod
    def link(client: Client, user: User, subject: str, **more: str) -> HttpResponse:
        sent = {
            "username": user.username, "is_active": "on", "is_staff": "on", "date_joined_0": "2030-01-01",
            "date_joined_1": "00:00:00", "bounds-TOTAL_FORMS": "0", "bounds-INITIAL_FORMS": "0",
            "identity-TOTAL_FORMS": "1", "identity-INITIAL_FORMS": "0", "identity-0-operator": str(user.pk),
            "identity-0-subject": subject,
        }  # fmt: skip
        return client.post(reverse("admin:auth_user_change", args=[user.pk]), sent | more)

    def test_is_done_by_an_access_administrator_on_the_operators_page(self, idp: Provider) -> None:
        clerk = User.objects.create_user("clerk", is_staff=True)
        rights = ("view_user", "change_user", "view_operatoridentity", "add_operatoridentity")
        assert self.link(signed_in(*rights), clerk, "subject-1").status_code == 302
        assert str(OperatorIdentity.objects.get()) == "subject-1"
        client = browser()
        go(client)
        assert OperatorSession.objects.filter(operator=clerk).exists()
        other = User.objects.create_user("other", is_staff=True)
        refused = self.link(signed_in(*rights), other, "subject-1").content.decode()
        assert "Another operator is linked" in refused

    def test_is_not_done_by_those_without_the_right_nor_for_oneself_nor_above(
        self, idp: Provider, ops: User
    ) -> None:
        clerk = User.objects.create_user("clerk", is_staff=True)
        self.link(signed_in("view_user", "change_user"), clerk, "subject-1")
        rights = ("view_user", "change_user", "view_operatoridentity", "add_operatoridentity")
        administrator = signed_in(*rights)
        assert self.link(administrator, ops, "subject-1").status_code == 403
        self.link(administrator, User.objects.get(pk=administrator.session["_auth_user_id"]), "subject-1")
        assert not OperatorIdentity.objects.exists()
