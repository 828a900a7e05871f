"""Pull workers: claim, heartbeat and complete over HTTP, in any language (docs/pull-workers.md).

Dispatch decides as for every other type: a trigger it queues waits, without a message, for a pull worker to ask. From
the claim on each report names the trigger and its fence, and goes through the statements that Celery's workers use.
"""

from jobs.engine.pull.offers import claim
from jobs.engine.pull.reports import AttemptReport, Completed, StaleFence, complete, heartbeat

__all__ = ("AttemptReport", "Completed", "StaleFence", "claim", "complete", "heartbeat")
