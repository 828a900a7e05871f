"""A beat that catches up by a clock of its own."""

import pytest

from tests.engine.conftest import Beat
from tests.engine.outages.outage import Engine


@pytest.fixture
def engine(beat: Beat) -> Engine:
    return Engine(beat)
