"""Who uses the console, and what it shows."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.interfaces.admin.world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def staff() -> Callable[..., Client]:
    """``staff("view_job")`` is logged in with those permissions and no others."""

    def log_in(*codenames: str) -> Client:
        user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return log_in
