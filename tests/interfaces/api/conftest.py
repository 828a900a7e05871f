"""Callers of two tenants."""

import pytest

from tests.factories import make_tenant
from tests.interfaces.api.caller import Caller


@pytest.fixture
def owner(db: None, job_types: None) -> Caller:
    return Caller(make_tenant(), scopes=("read", "write", "worker", "admin"))


@pytest.fixture
def outsider(db: None) -> Caller:
    """A caller of another tenant, with every scope."""
    return Caller(make_tenant(), scopes=("read", "write", "worker", "admin"))


@pytest.fixture
def reader(owner: Caller) -> Caller:
    """A caller of the owner's tenant, with a key that only reads."""
    return Caller(owner.tenant, scopes=("read",))
