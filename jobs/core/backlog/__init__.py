"""The backlog of one dispatcher, in memory: ``lanes`` knows which lanes wait, ``turns`` whose turn it is."""

from jobs.core.backlog.lanes import Backlog, News
from jobs.core.backlog.turns import Ask, Lane, Turns

__all__ = ("Ask", "Backlog", "Lane", "News", "Turns")
