"""Structured logs: one event per verb, with the ids that let a reader follow a firing across processes.

``log = get_logger()`` then ``log.info("claim", trigger_id=…, fence=…)``: the event is the verb of DESIGN §1, everything
else is a key. ``bound(...)`` adds keys (worker, tenant) to all events of a block. Console or JSON, by
``CARILLON_LOG_FORMAT``. Lines of other libraries pass through the same formatter. An ``Outage`` tells of what is away.
"""

import logging
import logging.config
import time
from typing import Any, cast

import structlog
from structlog.tracebacks import ExceptionDictTransformer

bound = structlog.contextvars.bound_contextvars
FORMATS = ("console", "json")
#: How often an outage that lasts is told of.
OUTAGE_LINE_SECONDS = 10.0
_MAX_REFUSAL_LENGTH = 300

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def get_logger(name: str = "carillon") -> structlog.stdlib.BoundLogger:
    """A logger whose calls are ``(event, **keys)``."""
    return cast(structlog.stdlib.BoundLogger, structlog.stdlib.get_logger(name))


_log = get_logger()


def logging_config(
    *, log_format: str, level: str, overall_level: str | None = None, log_file: str | None = None
) -> None:
    """Configure structlog and the standard library's logging alike. May be repeated.

    ``log_format`` is ``"console"`` or ``"json"``; ``level`` a level name for our own events (libraries: WARNING, but
    Celery's and gunicorn's life-cycle lines at INFO), ``overall_level`` one for all there are. Lines go to standard
    error or to ``log_file``, which may be moved away at any time and is then begun again.
    """
    levels = {
        "carillon": level,
        "celery": "WARNING",
        "celery.worker": "WARNING",
        "celery.apps.worker": "INFO",
        "kombu": "WARNING",
        "django.request": "ERROR",
    }
    if overall_level is not None:
        levels = dict.fromkeys(levels, overall_level)
    sink = (
        {"class": "logging.StreamHandler"}
        if log_file is None
        else {"class": "logging.handlers.WatchedFileHandler", "filename": log_file, "encoding": "utf-8"}
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"structlog": {"()": formatter, "log_format": log_format}},
            "handlers": {"sink": sink | {"formatter": "structlog"}},
            "root": {"handlers": ["sink"], "level": overall_level or "WARNING"},
            "loggers": {name: {"level": least} for name, least in levels.items()},
        }
    )


def shape_of(value: Any) -> str:
    """What may be told of a stranger's message, which may hold anything: ``list of 2``, ``str of 36``."""
    size = f" of {len(value)}" if isinstance(value, str | bytes | list | tuple | dict) else ""
    return f"{type(value).__name__}{size}"


def formatter(log_format: str) -> structlog.stdlib.ProcessorFormatter:
    """What turns a record into a line of ``log_format``, one of ``FORMATS``.

    Tracebacks name files, lines and functions, never the values of local variables: those hold passwords and payloads.
    """
    renderers: list[Any] = (
        [
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(),
        ]
        if log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=False, pad_event_to=12, exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[_refusal_in_one_line, *_SHARED],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
    )


def _refusal_in_one_line(_: Any, __: str, event: Any) -> Any:
    """Django logs a bad host, or a request it takes for an attack, with a traceback: anybody could fill the log."""
    if event["_record"].name.startswith("django.security."):
        event.pop("exc_info", None)
        event["event"] = event["event"][:_MAX_REFUSAL_LENGTH]
    return event


class Outage:
    """Says that something is away: a line at its start, every ``OUTAGE_LINE_SECONDS`` one with a count, one at its end.
    ``keys`` are in each of them.

    One per process and thing, whatever fails because of it. An outage that begins soon after a line is told with the
    next one, so a thing that comes and goes cannot fill the log either. Without a lock: a child that was forked while
    another thread held one would never log again; two threads at once may at worst write a line twice.
    """

    def __init__(self, event: str, **keys: Any) -> None:
        self._event, self._keys = event, keys
        self._since: float | None = None
        self._line_at = -OUTAGE_LINE_SECONDS
        self._told = False
        self._failures = 0

    def failed(self, error: BaseException, **keys: Any) -> None:
        """One more try failed."""
        now = time.monotonic()
        if self._since is None:
            self._since, self._failures, self._told = now, 0, False
        self._failures += 1
        if now - self._line_at < OUTAGE_LINE_SECONDS:
            return
        again = {"failures": self._failures, "seconds": round(now - self._since)} if self._told else {}
        self._line_at, self._told = now, True
        text = str(error).strip().splitlines()[:1]
        _log.warning(
            self._event, error=text[0] if text else type(error).__name__, **self._keys, **again, **keys
        )

    def over(self) -> None:
        """It answered. Costs nothing while it was not away."""
        if self._since is None:
            return
        since, self._since = self._since, None
        if self._told:
            seconds = round(time.monotonic() - since, 1)
            _log.warning(f"{self._event}: over", failures=self._failures, seconds=seconds, **self._keys)
