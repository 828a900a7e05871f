"""The worker: how a Celery process carries out a message of ``[(trigger_id, fence), …]``."""

from jobs.engine.worker.draining import begin as drain
from jobs.engine.worker.process import THIS

be_expendable, begin_guarding, look_for_messages = (
    THIS.be_expendable,
    THIS.begin_guarding,
    THIS.look_for_messages,
)
perform, slot, wait_for_the_rest = THIS.perform, THIS.slot, THIS.wait_for_the_rest

__all__ = (
    "THIS",
    "be_expendable",
    "begin_guarding",
    "drain",
    "look_for_messages",
    "perform",
    "slot",
    "wait_for_the_rest",
)
