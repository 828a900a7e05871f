"""What all tests share: a clock that can be set, and job types that are gone after the test."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection

from jobs.handlers import registry
from tests import factories


@pytest.fixture
def clock(db: None) -> Iterator[Callable[[timedelta], None]]:
    """``clock(timedelta(hours=2))`` moves this connection's clock; it is put back afterwards."""
    yield factories.set_clock
    if not connection.needs_rollback:
        factories.set_clock(timedelta())


@pytest.fixture
def job_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in job types are loaded, and types registered by the test are gone after it."""
    registry.load()
    monkeypatch.setattr(registry, "_types", dict(registry._types))
