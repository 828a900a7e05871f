"""A beat that catches up by a clock of its own, while the database's stands still."""

import pytest
from django.db import connection

from tests.engine.conftest import Beat
from tests.engine.outages.outage import Engine

#: The function of migration 0001, by the beginning of the transaction. In such tests carillon_clock() calls it.
_STANDING = """
CREATE OR REPLACE FUNCTION carillon_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT now() + coalesce(nullif(current_setting('carillon.clock_offset', true), ''), '0')::interval
$$"""


@pytest.fixture
def engine(beat: Beat) -> Engine:
    """Time passes where a test moves the clock, and a millisecond with each turn. A hundred turns take seconds on full
    processors, in which a firing might fall due that the test does not count.
    """
    with connection.cursor() as cursor:
        cursor.execute(_STANDING)
    return Engine(beat)
