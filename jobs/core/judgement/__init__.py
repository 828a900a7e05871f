"""Whether an installation is well, and if not, why: a judgement over figures, the worst reason first.

Pure: who asks brings the figures (``jobs.explain.wellbeing``).
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
