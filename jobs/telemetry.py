"""Structured logs: one event per verb, with the ids that let a reader follow a firing across processes.

``log = get_logger()`` then ``log.info("claim", trigger_id=…, fence=…)``: the event is the verb of DESIGN §1, everything
else is a key. ``bound(...)`` adds keys (worker, tenant) to all events of a block. Console or JSON, by
``CARILLON_LOG_FORMAT``. Lines of other libraries pass through the same formatter.
"""

import logging
import logging.config
from typing import Any, cast

import structlog

bound = structlog.contextvars.bound_contextvars

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


def logging_config(*, log_format: str, level: str) -> None:
    """Configure structlog and the standard library's logging alike. May be repeated.

    ``log_format`` is ``"console"`` or ``"json"``; ``level`` a level name for our own events (libraries: WARNING, but
    Celery's and gunicorn's life-cycle lines at INFO).
    """
    renderers: list[Any] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=False, pad_event_to=12)]
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
            "formatters": {
                "structlog": {
                    "()": structlog.stdlib.ProcessorFormatter,
                    "foreign_pre_chain": _SHARED,
                    "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
                }
            },
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structlog"}},
            "root": {"handlers": ["stderr"], "level": "WARNING"},
            "loggers": {
                "carillon": {"level": level},
                "celery": {"level": "WARNING"},
                "celery.worker": {"level": "WARNING"},
                "celery.apps.worker": {"level": "INFO"},
                "kombu": {"level": "WARNING"},
                "django.request": {"level": "ERROR"},
            },
        }
    )
