"""Carries out the sabotage ``CHAOS_SABOTAGE`` in the process that imports this. Only a rehearsal's stage imports it.

``CARILLON_HANDLER_MODULES`` brings it into web, beats and workers alike, before any statement is executed.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chaos.sabotage.catalogue import SABOTAGES, Edit
from jobs.store import db

#: As long as a commit may take on a busy disk.
LINGER_SECONDS = 0.1


def edited(edits: Sequence[Edit]) -> dict[str, db.Query]:
    """The statements as they would be, by ``noun.name``. Raises ``LookupError`` where one has changed meanwhile."""
    found = db.all_queries()
    for query, was, becomes in edits:
        count = found[query].sql.count(was)
        if count != 1:
            raise LookupError(
                f"{query} holds {was!r} {count} times, not once: tell chaos/sabotage/catalogue.py how its guard is "
                "taken out now"
            )
        found[query] = replace(found[query], sql=found[query].sql.replace(was, becomes))
    return {query: found[query] for query, _, _ in edits}


def publish_before_commit() -> None:
    """Dispatch in a transaction that goes on until after the messages have left."""
    from jobs.engine import cycle

    names = vars(cycle)
    dispatch = names["dispatch"]

    def in_one_transaction(**arguments: Any) -> Any:
        with db.atomic():
            result = dispatch(**arguments)
            if result.queued:
                time.sleep(LINGER_SECONDS)
            return result

    names["dispatch"] = in_one_transaction


def linger_before_advancing() -> None:
    """Leave time for another beat between reading a job's next instant and moving it on."""
    from jobs.store import jobs

    names = vars(jobs)
    advance = names["advance"]

    def late(*arguments: Any) -> Any:
        time.sleep(LINGER_SECONDS)
        return advance(*arguments)

    names["advance"] = late


def send_again() -> None:
    """Let the HTTP library repeat a request, as it does by itself."""
    from jobs.handlers import egress

    names = vars(egress)
    open_egress = names["open_egress"]

    def lenient(*arguments: Any, **keywords: Any) -> Any:
        opened = open_egress(*arguments, **keywords)
        opened.session._retry_connection = True
        return opened

    names["open_egress"] = lenient


def keep_leftovers() -> None:
    """Do not look at transactions after a handler."""
    vars(db)["end_leftovers"] = lambda: False


def guard_nothing() -> None:
    """Leave each process to its own lease renewer."""
    from jobs.engine.worker.leases.guard import Guard

    for start in ("start", "start_beside"):
        setattr(Guard, start, lambda _: None)


def keep_instants() -> None:
    """Treat every release of the time zone database as the one on record."""
    from jobs.engine.firing.zones import ZoneRules

    ZoneRules.settled = lambda *_: True  # type: ignore[method-assign]


def act(name: str) -> None:
    """Carry the sabotage out in this process."""
    sabotage = SABOTAGES[name]
    for query, changed in edited(sabotage.edits).items():
        noun, _, verb = query.partition(".")
        db.queries(noun)[verb] = changed
    if sabotage.code:
        globals()[sabotage.code]()


if os.environ.get("CHAOS_SABOTAGE"):
    act(os.environ["CHAOS_SABOTAGE"])
