"""Who acts: told to the database with each statement that writes what the audit trail watches.

An actor is known to the thread (a request, a slice of an operation) or to the process (a command). Statements on
``WATCHED`` tables are preceded by a ``set_config`` that lasts as long as their transaction, in the same message to the
server: so it holds for statements that commit by themselves and is never seen by whoever has the connection next. All
other statements are sent as they are. Triggers read it (migration 0006); whoever names no actor is told of as the
database's user.
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
#: Tables that dispatch writes in every turn, columns that tell nothing: whoever writes the others says who acts
#: (``sign_transaction``).
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
    """Whoever it is, as people know it: a key's prefix and name, a user's name, a command and who ran it."""

    kind: str
    name: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)

    def as_text(self) -> str:
        """As the database is told."""
        return json.dumps(self.as_dict())


ENGINE = Actor(ActorKind.ENGINE, "engine")
_of_thread: ContextVar[Actor | None] = ContextVar("actor", default=None)
_of_process: Actor | None = None


@contextmanager
def acting_as(actor: Actor | None) -> Iterator[None]:
    """What this thread writes inside is done by ``actor``; None: as before."""
    token = _of_thread.set(actor or _of_thread.get())
    try:
        yield
    finally:
        _of_thread.reset(token)


def identify(actor: Actor) -> None:
    """From here to the end of the ``acting_as`` around it, it turns out to be ``actor``."""
    _of_thread.set(actor)


def act_for_process(actor: Actor) -> None:
    """Whatever this process writes is done by ``actor``, unless a thread says otherwise."""
    global _of_process
    _of_process = actor


def present_actor() -> Actor | None:
    """Who acts in this thread; None: nobody said."""
    return _of_thread.get() or _of_process


def present_name() -> str:
    """Who acts, as it is stored beside what was done."""
    actor = present_actor()
    return actor.name[:200] if actor else "unknown"


def sign_statements() -> None:
    """Tell the database who acts, on every connection this process makes from here on. May be repeated."""
    connection_created.connect(_settle, dispatch_uid="carillon-actor")


def sign_transaction() -> None:
    """Tell the database who acts until the transaction at hand ends."""
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
    # The caller is to find the statement's own result.
    while context["cursor"].nextset():
        pass
    return answer
