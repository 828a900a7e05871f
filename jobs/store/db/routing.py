"""Which server a read goes to: the one place that decides it.

Everything goes to the primary. Inside ``on_replica`` reads of history go to the replica: the models of ``HISTORY``
whatever asks for them, and statements of the store that are called by ``Query.of_history``. What says who may see what
(keys, operators, sessions, rights) and how things stand (levers, leases, counts) is never in ``HISTORY``.

A row that came from the replica is not written back: Django sends ``save()`` to where a row was read, and the replica
refuses it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db.models import Model
from django.db.utils import DEFAULT_DB_ALIAS

PRIMARY, REPLICA = DEFAULT_DB_ALIAS, "replica"
#: What is told of the past, and what its lists show beside it.
HISTORY = frozenset(
    {
        "django_celery_results.taskresult",
        "jobs.attempt",
        "jobs.change",
        "jobs.job",
        "jobs.joblabel",
        "jobs.skippedrange",
        "jobs.taskrun",
        "jobs.trigger",
        "jobs.workflow",
        "jobs.workflowrun",
        "jobs.workflowversion",
        "tenants.tenant",
    }
)
_server: ContextVar[str] = ContextVar("server of history", default=PRIMARY)


@contextmanager
def on_replica() -> Iterator[None]:
    """Reads of history by this thread go to the replica. ``jobs.store.replica.read`` alone enters it."""
    token = _server.set(REPLICA)
    try:
        yield
    finally:
        _server.reset(token)


def server_of_history() -> str:
    """The alias of the database that history is read from, here and now."""
    return _server.get()


class HistoryRouter:
    """Django's question, answered. Of writes it says nothing: see above. Nor of a team's own models and databases."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        if model._meta.label_lower in HISTORY:
            return server_of_history()
        # Django would look for what belongs to a row where the row was read.
        instance = hints.get("instance")
        return PRIMARY if instance is not None and instance._state.db == REPLICA else None

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool | None:
        """Rows of both servers are of one database."""
        return True if {one._state.db, other._state.db} <= {PRIMARY, REPLICA} else None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if db == REPLICA else None
