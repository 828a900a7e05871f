"""A town for each test, and the engine's fixtures that it is made of."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests import factories
from tests.engine.conftest import Beat, Broker, beat, broker, make_beat, perform
from tests.workflows.schedules.town import Town

__all__ = ("beat", "broker", "make_beat", "perform")


@pytest.fixture
def town(beat: Beat, broker: Broker, perform: Callable[..., Any]) -> Iterator[Town]:
    yield Town(beat, broker, perform)
    factories.set_clock(timedelta())
