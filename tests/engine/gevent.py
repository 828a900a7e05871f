"""A pool by the name of one that Carillon refuses, so that refusing it needs no gevent."""

from celery.concurrency.solo import TaskPool as Solo


class TaskPool(Solo):
    """Would run, were it let."""
