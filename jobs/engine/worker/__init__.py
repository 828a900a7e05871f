"""The worker: what a Celery process does with a message of ``[(trigger_id, fence), …]``."""

from jobs.engine.worker.batch import be_expendable, perform, wait_for_the_rest
from jobs.engine.worker.draining import begin as drain

__all__ = ("be_expendable", "drain", "perform", "wait_for_the_rest")
