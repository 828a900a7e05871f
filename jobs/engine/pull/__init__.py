"""Pull workers: claim, heartbeat and complete over HTTP, in any language (docs/pull-workers.md).

Dispatch decides as for every other type. A queued trigger waits, without a message, until a pull worker asks for it.
From the claim on each report names the trigger and its fence, and goes through the statements that Celery's workers
use.
"""

from jobs.engine.pull.offers import claim
from jobs.engine.pull.reports import AttemptReport, Completed, StaleFence, complete, heartbeat

__all__ = ("AttemptReport", "Completed", "StaleFence", "claim", "complete", "heartbeat")
