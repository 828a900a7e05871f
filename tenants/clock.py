"""The database's clock, which tests can set. Its home is here, since tenants imports nothing of jobs."""

from datetime import UTC, datetime

from django.db import connection
from django.db.models import DateTimeField, Func


class DatabaseNow(Func):
    """``carillon_now()`` within a query: the beginning of the statement."""

    function = "carillon_now"
    output_field = DateTimeField()


def database_now() -> datetime:
    """The database's clock, in UTC."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT carillon_clock()")
        now: datetime = cursor.fetchone()[0]
    return now.astimezone(UTC)
