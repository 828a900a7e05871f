"""A code of a second factor, and a recovery code, given by several at once."""

import pytest
from django.contrib.auth.models import User

from tenants import second_factor
from tenants.models import SecondFactor
from tests.races.conftest import at_once

pytestmark = pytest.mark.django_db(transaction=True)
SIDES = 4


class TestACode:
    @pytest.mark.parametrize("kind", ["code", "recovery code"])
    def test_passes_once_however_many_give_it_at_once(
        self, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(second_factor, "present_step", lambda: 63_000_000)
        ops = User.objects.create_user("ops")
        secret = second_factor.new_secret()
        for _ in range(5):
            code = second_factor.code_at(secret, 63_000_000)
            recovery = second_factor.set_up(operator=ops, secret=secret, code=code)
            SecondFactor.objects.update(used_step=0)
            given = code if kind == "code" else recovery[0]
            passed = at_once(*[lambda given=given: second_factor.passed_by(operator=ops, code=given)] * SIDES)
            assert sorted(passed) == [""] * (SIDES - 1) + [f"password and {kind}"]
