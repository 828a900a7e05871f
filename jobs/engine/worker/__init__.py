"""The worker: what a Celery process does with a message of ``[(trigger_id, fence), …]``."""

from jobs.engine.worker.batch import perform, wait_for_the_rest

__all__ = ("perform", "wait_for_the_rest")
