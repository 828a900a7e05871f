"""Second factors that are lost: reset by an access administrator or by command, and how a secret is kept."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from jobs.models import Change
from tenants import second_factor
from tenants.console.operators import reset_second_factor
from tenants.models import SecondFactor
from tests.interfaces.admin.world import CONFIRMED, press, signed_in
from tests.interfaces.signin.second_factor.browser import browser, code_of, give, give_password, is_in

pytestmark = pytest.mark.django_db


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
        assert administrator.post(url, CONFIRMED).status_code == 403  # ``ops`` is a superuser
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
