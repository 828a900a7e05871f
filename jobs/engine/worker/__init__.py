"""The worker: what a Celery process does with a message of ``[(trigger_id, fence), …]``."""

from jobs.engine.worker.batch import perform

__all__ = ("perform",)
