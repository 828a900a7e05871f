"""The one place that decides which server a read goes to.

Everything goes to the primary. Inside ``on_replica`` reads of history go to the replica: all reads of the models of
``HISTORY``, and statements of the store that are called by ``Query.of_history``. Data that decides access (keys,
operators, sessions, rights) and the present state (levers, leases, counts) are never in ``HISTORY``.

A row that came from the replica is not written back: Django sends ``save()`` to the server that the row was read from,
and the replica refuses it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db.models import Model
from django.db.utils import DEFAULT_DB_ALIAS

PRIMARY, REPLICA = DEFAULT_DB_ALIAS, "replica"
#: The models of the past, and those that lists of the past show beside them.
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
    """Answers Django's question. It says nothing of writes (see above), or of a team's own models and databases."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        if model._meta.label_lower in HISTORY:
            return server_of_history()
        # Django would look for the related rows of a row on the server that the row was read from.
        instance = hints.get("instance")
        return PRIMARY if instance is not None and instance._state.db == REPLICA else None

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool | None:
        """Rows of both servers are of one database."""
        return True if {one._state.db, other._state.db} <= {PRIMARY, REPLICA} else None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if db == REPLICA else None
