"""The database's clock, which tests can set."""

from datetime import datetime
from typing import cast

from django.db import connection
from django.db.models import DateTimeField, Func


class DatabaseNow(Func):
    """``carillon_now()`` within a query."""

    function = "carillon_now"
    output_field = DateTimeField()


def database_now() -> datetime:
    """What Postgres says the time is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT carillon_now()")
        return cast(datetime, cursor.fetchone()[0])
