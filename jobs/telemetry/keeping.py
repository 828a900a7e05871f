"""Keeps a handler's log lines with its attempt, and also sends them where all lines go.

The context of the thread or task that writes a line tells which attempt the line belongs to. Lines of the engine and of
the libraries below it are left out. They tell of the installation, such as the broker's address, and some are written
by a thread that happens to collect another's garbage.
"""

import logging
from typing import Any

import structlog

from jobs.telemetry.context import current_attempt

#: Loggers, with all below them, whose lines are the installation's.
NOT_KEPT = frozenset(
    (
        "carillon", "asyncio", "py", "celery", "kombu", "amqp", "billiard", "vine", "redis", "django", "psycopg",
        "aiohttp", "aiodns", "concurrent",
    )
)  # fmt: skip
#: Keys that every line of an attempt would repeat.
_KNOWN = frozenset(
    (
        "tenant", "job_id", "trigger_id", "attempt_id", "attempt", "fence", "trace_id", "request_id", "worker",
        "timestamp", "level", "logger", "event", "exception", "stack",
    )
)  # fmt: skip


class KeepLines(logging.Handler):
    """A handler of the root logger. Where no job's handler is at work, it costs a look at a context variable."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                processors=[
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.format_exc_info,
                    _as_line,
                ]
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        attempt = current_attempt()
        if attempt is None or record.name.partition(".")[0] in NOT_KEPT:
            return
        try:
            attempt.output.line(f"{record.levelname} {record.name} {self.format(record)}")
        except Exception:  # noqa: BLE001 - as in any handler of logging: such a record is told on stderr
            self.handleError(record)


def _as_line(_: Any, __: str, event: Any) -> str:
    keys = [f" {key}={value!r}" for key, value in event.items() if key not in _KNOWN]
    behind = [f"\n{event[name]}" for name in ("stack", "exception") if event.get(name)]
    return "".join((str(event.get("event", "")), *keys, *behind))
