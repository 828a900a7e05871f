"""A pool with the name of one that Carillon refuses, so that the refusal can be tested without gevent."""

from celery.concurrency.solo import TaskPool as Solo


class TaskPool(Solo):
    """Would run if Carillon let it."""
