"""Users of the console, and the rows it shows."""

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs.explain.wellbeing import wellbeing
from tenants.models import Tenant
from tests.factories import make_tenant
from tests.interfaces.admin.world import World, signed_in


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def tenant() -> Tenant:
    """For tests that need none of the world's rows, which take most of a short test's time."""
    return make_tenant()


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def staff() -> Callable[..., Client]:
    """``staff("view_job")`` is logged in with those permissions and no others."""

    return signed_in


@pytest.fixture(autouse=True)
def looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The overview keeps no figures of another test, and asks no broker."""
    monkeypatch.setattr(wellbeing, "broker", lambda: True)
    monkeypatch.setattr(wellbeing, "rates", lambda: True)
    wellbeing.forget()
    yield
    wellbeing.forget()
