"""An operator with a second factor, at a time that stands still."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from tenants import second_factor
from tenants.models import SecondFactor
from tests.interfaces.signin.second_factor.browser import PASSWORD, code_of


@pytest.fixture(autouse=True)
def optional(settings: Any, no_tries: None) -> None:
    settings.SECOND_FACTOR = "optional"


@pytest.fixture(autouse=True)
def one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time stays in one step of 30 s, however long the test takes."""
    monkeypatch.setattr(second_factor, "present_step", lambda: 63_000_000)


@pytest.fixture
def required(settings: Any, optional: None) -> None:
    settings.SECOND_FACTOR = "required"


@pytest.fixture
def ops() -> User:
    return User.objects.create_superuser("ops", password=PASSWORD)


@pytest.fixture
def secret(ops: User) -> str:
    """The secret in the app of ``ops``. Its code of two steps ago is used."""
    text = second_factor.new_secret()
    second_factor.set_up(operator=ops, secret=text, code=code_of(text))
    SecondFactor.objects.update(used_step=second_factor.present_step() - 2)
    return text
