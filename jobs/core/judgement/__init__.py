"""Decides from figures whether an installation is well, and if not, why: the worst reason comes first.

Pure: the caller brings the figures (``jobs.explain.wellbeing``).
"""

from jobs.core.judgement.figures import (
    ClockFigures,
    Figures,
    LeaderFigures,
    OpenBreaker,
    Stopped,
    TenantFigures,
    TypeFigures,
    WorkerFigures,
)
from jobs.core.judgement.judge import Verdict, judge
from jobs.core.judgement.reason import Level, Reason

__all__ = (
    "ClockFigures",
    "Figures",
    "LeaderFigures",
    "Level",
    "OpenBreaker",
    "Reason",
    "Stopped",
    "TenantFigures",
    "TypeFigures",
    "Verdict",
    "WorkerFigures",
    "judge",
)
