"""The API of pull workers: the types they serve, and the exchange of claim, heartbeat and complete."""

from jobs.api.work.exchange import ClaimView, CompleteView, HeartbeatView
from jobs.api.work.types import JobTypeView

__all__ = ("ClaimView", "CompleteView", "HeartbeatView", "JobTypeView")
