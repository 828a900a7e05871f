"""The API of pull workers: the types they serve, and the exchange of claim, heartbeat and complete."""

from jobs.api.pull.exchange import ClaimView, CompleteView, HeartbeatView
from jobs.api.pull.types import JobTypeView

__all__ = ("ClaimView", "CompleteView", "HeartbeatView", "JobTypeView")
