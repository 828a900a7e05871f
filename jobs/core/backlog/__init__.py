"""The backlog of one dispatcher, in memory: ``lanes`` knows which lanes wait, ``turns`` whose turn it is, and
``shares`` what each tenant has received and has due."""

from jobs.core.backlog.lanes import Backlog, News
from jobs.core.backlog.shares import Ask, Lane
from jobs.core.backlog.turns import Turns

__all__ = ("Ask", "Backlog", "Lane", "News", "Turns")
