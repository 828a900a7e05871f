"""Cron expressions: what is accepted, what is refused and why, and the wall-clock times they name.

``columns`` says what the fields of each dialect may hold, ``terms`` reads one field, ``expression`` reads the whole
and walks the calendar, ``moving`` that of days which move with their month, ``wall_times`` counts it. Time zones and
changes of clocks are not known here; they are ``jobs.core.calendar``'s.
"""

from jobs.core.cron.expression import MACROS, MAX_CRON_LENGTH, CronExpression, parse_cron
from jobs.core.cron.wall_times import WallTimes

__all__ = ("MACROS", "MAX_CRON_LENGTH", "CronExpression", "WallTimes", "parse_cron")
