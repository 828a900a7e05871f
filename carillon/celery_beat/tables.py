"""Reading django-celery-beat's tables, in one read-only statement; nothing of Django or Celery is needed."""

from typing import Any

import psycopg
from psycopg.rows import dict_row

from carillon.errors import Misuse, Unreachable

CONNECT_SECONDS = 10
#: Scans the table in the order of names; some hundred rows, mostly.
_ALL = """
SELECT task.id, task.name, task.task, task.args, task.kwargs, task.queue, task.exchange, task.routing_key,
       task.headers, task.priority, task.expires, task.expire_seconds, task.one_off, task.start_time, task.enabled,
       task.interval_id, task.crontab_id, task.solar_id, task.clocked_id,
       every.every, every.period,
       cron.minute, cron.hour, cron.day_of_month, cron.month_of_year, cron.day_of_week, cron.timezone,
       clocked.clocked_time, clocked.clocked_time <= now() AS is_past
FROM django_celery_beat_periodictask AS task
LEFT JOIN django_celery_beat_intervalschedule AS every ON every.id = task.interval_id
LEFT JOIN django_celery_beat_crontabschedule AS cron ON cron.id = task.crontab_id
LEFT JOIN django_celery_beat_clockedschedule AS clocked ON clocked.id = task.clocked_id
ORDER BY task.name
"""


def read_rows(database_url: str) -> list[dict[str, Any]]:
    """A row for each periodic task. Raises ``Misuse`` for a database without them, ``Unreachable`` if none answers."""
    if not database_url.startswith(("postgres://", "postgresql://")):
        raise Misuse("--database-url: Must begin with postgresql://; tables elsewhere cannot be read.")
    try:
        with psycopg.connect(
            database_url, connect_timeout=CONNECT_SECONDS, row_factory=dict_row
        ) as connection:
            connection.read_only = True
            return connection.execute(_ALL).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        reason = error.diag.message_primary
        raise Misuse(
            f"--database-url: The database has no tables of django-celery-beat 2: {reason}."
        ) from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misuse(f"--database-url: {error.diag.message_primary}.") from None
    except psycopg.ProgrammingError as error:
        raise Misuse(f"--database-url: {_first_line(error)}") from None
    except psycopg.Error as error:
        raise Unreachable(f"The database did not answer: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
