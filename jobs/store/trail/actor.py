"""The actor: told to the database with each statement that writes to a table that the audit trail watches.

An actor is known to the thread (a request, a slice of an operation) or to the process (a command). Statements on
``WATCHED`` tables are preceded by a ``set_config`` that lasts as long as their transaction, in the same message to the
server. So it also holds for statements that commit by themselves, and the next user of the connection never sees it.
All other statements are sent as they are. Triggers read it (migration 0006); a writer that names no actor is recorded
as the database's user.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from django.db import connection
from django.db.backends.signals import connection_created
from psycopg.sql import Literal

WATCHED = (
    "jobs_job",
    "jobs_pulltype",
    "tenants_tenant",
    "tenants_apikey",
    "tenants_secret",
    "auth_user",
    "auth_group",
    "auth_user_groups",
    "auth_user_user_permissions",
    "auth_group_permissions",
    "tenants_operatorbounds",
    "tenants_operatorbounds_tenants",
    "tenants_operatorsession",
    "tenants_secondfactor",
    "tenants_operatoridentity",
    "jobs_installation",
    "jobs_operation",
    "jobs_targetrule",
    "jobs_workflow",
)
#: Tables with columns that tell nothing, which dispatch writes in every turn. Code that writes the other columns names
#: the actor (``sign_transaction``).
SIGNED_BY_HAND = ("jobs_queue",)
_WRITES = re.compile(
    rf'\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\s+(?:ONLY\s+)?"?(?:{"|".join(WATCHED)})\b',
    re.IGNORECASE,
)


class ActorKind(StrEnum):
    API_KEY = "api_key"
    OPERATOR = "operator"
    COMMAND = "command"
    ENGINE = "engine"
    #: An author of SQL by hand.
    DATABASE = "database"


@dataclass(frozen=True, slots=True)
class Actor:
    """An actor as people know it: a key's prefix and name, a user's name, a command and the user that ran it."""

    kind: str
    name: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)

    def as_text(self) -> str:
        """The text that the database is told."""
        return json.dumps(self.as_dict())


ENGINE = Actor(ActorKind.ENGINE, "engine")
_of_thread: ContextVar[Actor | None] = ContextVar("actor", default=None)
_of_process: Actor | None = None


@contextmanager
def acting_as(actor: Actor | None) -> Iterator[None]:
    """All writes of this thread inside the block are by ``actor``; None: by the same actor as before."""
    token = _of_thread.set(actor or _of_thread.get())
    try:
        yield
    finally:
        _of_thread.reset(token)


def identify(actor: Actor) -> None:
    """From here to the end of the ``acting_as`` around it, the actor is ``actor``."""
    _of_thread.set(actor)


def act_for_process(actor: Actor) -> None:
    """All writes of this process are by ``actor``, unless a thread says otherwise."""
    global _of_process
    _of_process = actor


def present_actor() -> Actor | None:
    """The actor of this thread; None: none was named."""
    return _of_thread.get() or _of_process


def present_name() -> str:
    """The name of the actor, as it is stored beside a change."""
    actor = present_actor()
    return actor.name[:200] if actor else "unknown"


def sign_statements() -> None:
    """Tell the database the actor, on every connection that this process makes from here on. May be repeated."""
    connection_created.connect(_settle, dispatch_uid="carillon-actor")


def sign_transaction() -> None:
    """Tell the database the actor until the present transaction ends."""
    if (actor := present_actor()) is not None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('carillon.actor', %s, true)", [actor.as_text()])


def _settle(connection: Any, **_: Any) -> None:
    if _sign not in connection.execute_wrappers:
        connection.execute_wrappers.append(_sign)


def _sign(
    execute: Callable[..., Any], statement: Any, parameters: Any, many: bool, context: dict[str, Any]
) -> Any:
    actor = present_actor()
    if actor is None or not isinstance(statement, str) or not _WRITES.search(statement):
        return execute(statement, parameters, many, context)
    told = Literal(actor.as_text()).as_string(None)
    signature = f"SELECT set_config('carillon.actor', {told}, true); "
    if many:  # one message each, so that this only helps inside a transaction
        execute(signature.replace("%", "%%"), [()], many, context)
        return execute(statement, parameters, many, context)
    if parameters is not None:
        signature = signature.replace("%", "%%")
    answer = execute(signature + statement, parameters, many, context)
    # The caller must find the statement's own result.
    while context["cursor"].nextset():
        pass
    return answer
