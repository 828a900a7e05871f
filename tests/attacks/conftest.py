"""Fixtures that attacks share: a worker without Celery, and runners, from the tests of the engine and of handlers."""

from tests.engine.conftest import handler, perform
from tests.handlers.conftest import asked, make_context, open_runner, receiver

__all__ = ("asked", "handler", "make_context", "open_runner", "perform", "receiver")
