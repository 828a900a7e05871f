"""Cron expressions: the accepted ones, the refused ones with a reason, and the wall-clock times they name.

``columns`` says what the fields of each dialect may hold. ``terms`` reads one field. ``expression`` reads the whole and
walks the calendar; ``moving`` walks the calendar of days that move with their month. ``wall_times`` counts the times.
Time zones and changes of clocks are not known here; they belong to ``jobs.core.calendar``.
"""

from jobs.core.cron.expression import MACROS, MAX_CRON_LENGTH, CronExpression, parse_cron
from jobs.core.cron.wall_times import WallTimes

__all__ = ("MACROS", "MAX_CRON_LENGTH", "CronExpression", "WallTimes", "parse_cron")
