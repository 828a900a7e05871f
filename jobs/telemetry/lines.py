"""How a log line is made: its logger, its keys, its format. Lines of other libraries go through the same formatter."""

import logging
import logging.config
from typing import Any, cast

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from jobs.telemetry.context import add_context
from jobs.telemetry.keeping import KeepLines

NAME = "carillon"
FORMATS = ("console", "json")
_MAX_REFUSAL_LENGTH = 300

_SHARED: list[Any] = [
    add_context,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def get_logger(name: str = NAME) -> structlog.stdlib.BoundLogger:
    """A logger whose calls are ``(event, **keys)``."""
    return cast(structlog.stdlib.BoundLogger, structlog.stdlib.get_logger(name))


def logging_config(
    *, log_format: str, level: str, overall_level: str | None = None, log_file: str | None = None
) -> None:
    """Configure structlog and the standard library's logging alike. May be repeated.

    ``log_format`` is ``"console"`` or ``"json"``. ``level`` is a level name for Carillon's own events (libraries:
    WARNING, but Celery's and gunicorn's life-cycle lines at INFO); ``overall_level`` is one for all events. Lines go to
    standard error or to ``log_file``. That file may be moved away at any time; it is then begun again.
    """
    levels = {
        NAME: level,
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
            "handlers": {"sink": sink | {"formatter": "structlog"}, "attempt": {"()": KeepLines}},
            "root": {"handlers": ["sink", "attempt"], "level": overall_level or "WARNING"},
            "loggers": {name: {"level": least} for name, least in levels.items()},
        }
    )


def shape_of(value: Any) -> str:
    """A description of a stranger's message that is safe to log: ``list of 2``, ``str of 36``. It may hold anything."""
    size = f" of {len(value)}" if isinstance(value, str | bytes | list | tuple | dict) else ""
    return f"{type(value).__name__}{size}"


def formatter(log_format: str) -> structlog.stdlib.ProcessorFormatter:
    """The formatter that turns a record into a line of ``log_format``, one of ``FORMATS``.

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
    """Django logs a bad host, or a request it takes for an attack, with a traceback: any caller could fill the log."""
    if event["_record"].name.startswith("django.security."):
        event.pop("exc_info", None)
        event["event"] = event["event"][:_MAX_REFUSAL_LENGTH]
    return event
