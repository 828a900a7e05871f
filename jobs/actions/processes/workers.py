"""Commands to worker processes, by Celery's remote control: take nothing more, take work again, or stop.

All are on the audit trail, under the installation, with the actor. A pull worker is its tenant's process, and no
command here reaches it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from celery import current_app
from kombu.exceptions import KombuError

from jobs.core.errors import Conflict, NotFound, Unavailable
from jobs.core.pull import is_pull
from jobs.models import Change
from jobs.store import trail
from jobs.store.insight import workers

T = TypeVar("T")
#: How long a worker may take to answer.
PATIENCE_SECONDS = 2.0


def quiet_worker(*, name: str) -> list[str]:
    """Let the worker take no more messages from any queue; its work goes on. Returns the queues that it took from.

    It stays, and takes work again when it is told so or restarted. May be repeated. Raises ``NotFound``,
    ``Conflict``, ``Unavailable``.
    """
    _find(name)
    queues = _queues_of(name)
    tell = partial(
        current_app.control.cancel_consumer, destination=[name], reply=True, timeout=PATIENCE_SECONDS
    )
    for queue in queues:
        _ask(partial(tell, queue))
    if queues:
        _note(name, {"queues": [queues, []]})
    return queues


def resume_worker(*, name: str) -> list[str]:
    """Let the worker take again from the queues that it took from before ``quiet_worker``. Returns these.

    The trail knows these queues. Raises ``NotFound``, ``Conflict`` if it does not, ``Unavailable``.
    """
    _find(name)
    present = _queues_of(name)
    queues = [queue for queue in _before_quiet(name) if queue not in present]
    if not queues:
        raise Conflict(
            "It already takes from its queues, or was not told to stop: after a restart it takes from all."
        )
    tell = partial(current_app.control.add_consumer, destination=[name], reply=True, timeout=PATIENCE_SECONDS)
    for queue in queues:
        _ask(partial(tell, queue))
    _note(name, {"queues": [present, sorted({*present, *queues})]})
    return queues


def stop_worker(*, name: str) -> None:
    """End the worker as a SIGTERM does: it gives back the work that it has not begun, and hands over the rest in time.

    Its supervisor decides whether it is started again. Raises ``NotFound``, ``Conflict``, ``Unavailable``.
    """
    _find(name)
    _queues_of(name)  # a worker that does not answer would not hear
    _ask(partial(current_app.control.shutdown, destination=[name]))
    _note(name, {"process": ["running", "told to stop"]})


def _find(name: str) -> Any:
    """The worker of that name, if it was heard of lately and alone has it."""
    found = next((row for row in workers.present() if row.name == name), None)
    if found is None:
        raise NotFound("No worker with this name was seen recently.")
    if any(is_pull(queue) for queue in found.queues):
        raise Conflict("It is a tenant's pull worker: only the tenant can stop it.")
    if name in workers.shared_names(workers.present()) or workers.is_own_name(name):
        raise Conflict("Several workers share this name, and all would react. Give each its own with -n.")
    return found


def _queues_of(name: str) -> list[str]:
    """The queues that the worker takes from at this moment, by its own answer."""
    asked = current_app.control.inspect(destination=[name], timeout=PATIENCE_SECONDS)
    answer = _ask(asked.active_queues)
    if not answer or name not in answer:
        raise Unavailable(f"Worker {name} does not answer: it may be frozen, or cut off from the broker.")
    return sorted(queue["name"] for queue in answer[name])


def _before_quiet(name: str) -> list[str]:
    """The queues that the worker took from before ``quiet_worker``, if that was the last command about its queues."""
    told = Change.objects.filter(object_id=_object_id(name), object_id__gt="", name=f"worker {name}")
    last = told.filter(changes__has_key="queues").order_by("-xid", "-id").first()
    before, after = (last.changes["queues"] or ([], [])) if last else ([], [])
    return [] if after else list(before)


def _ask(question: Callable[[], T]) -> T:
    try:
        return question()
    except (KombuError, OSError) as error:
        raise Unavailable("The broker does not answer, so no worker can be reached.") from error


def _object_id(name: str) -> str:
    return f"worker {name}"[:64]


def _note(name: str, changes: dict[str, Any]) -> None:
    trail.note(
        tenant_id=None,
        kind=Change.Kind.INSTALLATION,
        object_id=_object_id(name),
        name=f"worker {name}",
        action=Change.Action.UPDATED,
        changes=changes,
    )
