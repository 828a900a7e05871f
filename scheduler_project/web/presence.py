"""A web process says every few seconds which release it runs and how far off its clock is, as beats and workers do.

For people, and so that an upgrade shows which processes it has not reached. A thread does it, over a connection that it
opens only for an instant.
"""

import os
import socket
import threading
import time

from jobs.store import db
from jobs.store.insight.clocks import MEASURED_EVERY, Drift

EVERY_SECONDS = MEASURED_EVERY.total_seconds()


def announce() -> None:
    """Begin to announce. Call it once in the process that serves requests, after its fork."""
    drift = Drift(name=f"web@{socket.gethostname()}:{os.getpid()}")
    threading.Thread(target=_run, args=(drift,), name="carillon-presence", daemon=True).start()


def _run(drift: Drift) -> None:
    announce_once(drift)  # the next call, which is due at once, stores the reading of this one
    while True:
        announce_once(drift)
        time.sleep(EVERY_SECONDS)


def announce_once(drift: Drift) -> None:
    """A database that is away is tried again at the next turn."""
    try:
        drift.measure_if_due()
    except db.TRANSIENT as error:
        db.note_away(error, what="presence")
    finally:
        db.disconnect()
