"""Task events for those who listen: on Redis a worker learns whether anybody does, and spares what nobody would hear.

Three events a message were an eighth of what it cost a worker's main process. Of the worker itself everything is told
always. Named by ``Celery(events=…)``.
"""

import threading
import time
from typing import Any

from celery.app.events import Events as CelerysEvents
from celery.events.dispatcher import EventDispatcher

#: How late who begins to listen hears of the first message.
DEAF_SECONDS = 2.0
#: How a group of buffered events is addressed.
TASKS = "task.multi"


class Dispatcher(EventDispatcher):  # type: ignore[misc]
    """Tells of no message for ``DEAF_SECONDS`` after a lot of events that nobody heard, then tries another lot.

    A pool's threads always tell: it also wakes the loop, for it to see that one of them is free.
    """

    _deaf_until = 0.0

    def send(self, type: str, *args: Any, **fields: Any) -> Any:
        if time.monotonic() < self._deaf_until and type.startswith("task-") and _in_main_thread():
            return None
        return super().send(type, *args, **fields)

    def flush(self, errors: bool = True, groups: bool = True) -> None:
        super().flush(errors, groups)
        # Of brokers other than Redis it is not known who heard; and a channel that is not open is not opened for this.
        channel = getattr(self.producer, "_channel", None)
        if getattr(channel, "heard", {}).pop(TASKS, None) == 0:
            self._deaf_until = time.monotonic() + DEAF_SECONDS


class Events(CelerysEvents):  # type: ignore[misc]
    dispatcher_cls = f"{__name__}:{Dispatcher.__name__}"


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
