"""Task events while they have subscribers: on Redis a worker learns whether there are any, and otherwise emits none.

Three events per message were an eighth of the cost in a worker's main process. Events about the worker itself are
always emitted, unless the broker is slow: emitting waits for the broker, and no message is taken in that time. Named by
``Celery(events=…)``.
"""

import threading
import time
from typing import Any

from celery.app.events import Events as CelerysEvents
from celery.events.dispatcher import EventDispatcher

#: How late a new listener hears of the first message.
DEAF_SECONDS = 2.0
#: A broker that takes longer for an event is slow; emitting then takes up to this share of the main thread's time. What
#: was just taken waits behind it: at a tenth of the time, firings were 10.8 s late with Redis two seconds away.
SLOW_SECONDS, SLOW_SHARE = 0.1, 0.03
#: How a group of buffered events is addressed.
TASKS = "task.multi"


class Dispatcher(EventDispatcher):  # type: ignore[misc]
    """Emits no task events for ``DEAF_SECONDS`` after a batch without subscribers, then tries another batch.

    A pool's threads always emit: that also wakes the loop, so that it sees that one of them is free.
    """

    _deaf_until = _slow_until = 0.0

    def send(self, type: str, *args: Any, **fields: Any) -> Any:
        spared_until = self._slow_until
        if type.startswith("task-"):
            spared_until = max(spared_until, self._deaf_until)
        elif type != "worker-heartbeat":
            spared_until = 0.0
        if time.monotonic() < spared_until and _in_main_thread():
            return None
        return super().send(type, *args, **fields)

    def _publish(self, *args: Any, **options: Any) -> Any:
        began = time.monotonic()
        super()._publish(*args, **options)
        ended = time.monotonic()
        if ended - began > SLOW_SECONDS:
            self._slow_until = ended + (ended - began) * (1 - SLOW_SHARE) / SLOW_SHARE

    def flush(self, errors: bool = True, groups: bool = True) -> None:
        super().flush(errors, groups)
        # Brokers other than Redis do not tell the number of subscribers, and no channel is opened only for this.
        channel = getattr(self.producer, "_channel", None)
        if getattr(channel, "heard", {}).pop(TASKS, None) == 0:
            self._deaf_until = time.monotonic() + DEAF_SECONDS


class Events(CelerysEvents):  # type: ignore[misc]
    dispatcher_cls = f"{__name__}:{Dispatcher.__name__}"


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
