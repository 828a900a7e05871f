"""Canaries: values that stand in one place alone, their encodings, and a search of all kept or shown text."""

import base64
import html
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus, unquote

import redis
import structlog
from celery.events.state import State
from django.conf import settings
from django.db import connection
from yarl import URL

from jobs import telemetry

_URLSAFE = str.maketrans("+/", "-_")


def _base64_at(lead: int) -> Callable[[str], str]:
    """The part of a value's base64 that never changes if the value begins ``lead`` bytes behind a group of 3."""

    def encoded(value: str) -> str:
        raw = value.encode()
        whole = base64.b64encode(b"\0" * lead + raw).decode()
        return whole[(0, 2, 3)[lead] : (lead + len(raw)) // 3 * 4]

    return encoded


ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "decoded": unquote,
    "its first half": lambda value: value[: len(value) // 2],
    "its last half": lambda value: value[len(value) // 2 :],
    "percent, but slashes": quote,
    "percent": lambda value: quote(value, safe=""),
    "percent, in lower case": lambda value: "".join(
        char if char.isalnum() else f"%{ord(char):02x}" for char in value
    ),
    "percent, every byte": lambda value: "".join(f"%{byte:02X}" for byte in value.encode()),
    "a form's": quote_plus,
    "decoded and percent": lambda value: quote(unquote(value), safe=""),
    "yarl's path": lambda value: str(URL(f"http://h/{value}")).removeprefix("http://h/"),
    "yarl's query": lambda value: str(URL(f"http://h/?{value}")).removeprefix("http://h/?"),
    "base64": _base64_at(0),
    "base64, one behind": _base64_at(1),
    "base64, two behind": _base64_at(2),
    "base64 for URLs": lambda value: _base64_at(0)(value).translate(_URLSAFE),
    "hex": lambda value: value.encode().hex(),
    "HEX": lambda value: value.encode().hex().upper(),
    "json": lambda value: json.dumps(value)[1:-1],
    "json in json": lambda value: json.dumps(json.dumps(value))[3:-3],
    "html": html.escape,
    "repr": lambda value: repr(value)[1:-1],
}


class Hit(NamedTuple):
    place: str
    canary: str
    encoding: str


def hits(places: Mapping[str, str], canaries: Mapping[str, str]) -> list[Hit]:
    """Each place that holds a canary, the canary, and its encoding."""
    sought = [
        (name, encoding, encode(value))
        for name, value in canaries.items()
        for encoding, encode in ENCODINGS.items()
    ]
    return [
        Hit(place, canary, encoding)
        for place, text in places.items()
        for canary, encoding, form in sought
        if form in text
    ]


_COLUMNS = """
SELECT c.relname, a.attname, a.atttypid = 'bytea'::regtype
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND a.attnum > 0 AND NOT a.attisdropped
  AND (t.typcategory = 'S' OR a.atttypid IN ('json'::regtype, 'jsonb'::regtype, 'bytea'::regtype)
       OR t.typelem IN (SELECT oid FROM pg_type WHERE typcategory = 'S'))
ORDER BY 1, 2
"""


def columns() -> dict[str, str]:
    """The content of each column, of every table, that can hold text, as ``table.column``."""
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS)
        for table, column, binary in cursor.fetchall():
            text = f"encode(\"{column}\", 'escape')" if binary else f'"{column}"::text'
            cursor.execute(f"SELECT string_agg({text}, E'\\n') FROM \"{table}\"")
            found[f"{table}.{column}"] = cursor.fetchone()[0] or ""
    return found


def in_redis(client: "redis.Redis[bytes]") -> str:
    """Every key and its content, with messages opened."""
    reads: dict[bytes, Callable[[bytes], Any]] = {
        b"string": client.get,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"none": lambda _: [],  # it expired since the scan
    }
    lines = []
    for key in client.scan_iter():
        held = reads[client.type(key)](key)
        entries = held.items() if isinstance(held, dict) else held if isinstance(held, list | set) else [held]
        for entry in entries:
            parts = entry if isinstance(entry, tuple) else (entry,)
            lines += [part.decode(errors="replace") for part in (key, *parts) if isinstance(part, bytes)]
            lines += [str(opened(part)) for part in parts if isinstance(part, bytes)]
    return "\n".join(lines)


def opened(entry: bytes) -> Any:
    """A message of kombu's with its body decoded; any other entry as it is."""
    try:
        envelope = json.loads(entry)
        if envelope["properties"].get("body_encoding") == "base64":
            envelope["body"] = json.loads(base64.b64decode(envelope["body"]))
    except (ValueError, TypeError, KeyError):
        return entry
    return envelope


class Ears:
    """All that is broadcast in Redis, as Flower hears it."""

    def __init__(self, client: "redis.Redis[bytes]") -> None:
        self._client = client  # without this reference it would close the connection
        self._heard = client.pubsub(ignore_subscribe_messages=True)
        self._heard.psubscribe("*")
        self._heard.get_message(timeout=1)

    def texts(self) -> tuple[str, list[str]]:
        """All broadcasts, and Flower's view of them: the fields of each task."""
        entries = []
        while message := self._heard.get_message(timeout=0.2):
            entries.append(opened(message["data"]))
        state = State()
        for entry in entries:
            body = entry["body"] if isinstance(entry, dict) else []
            for event in body if isinstance(body, list) else [body]:
                if isinstance(event, dict) and "type" in event:
                    state.event(event | {"local_received": event["timestamp"]})
        return "\n".join(map(str, entries)), [
            str(task.info(extra=["args", "kwargs", "result", "exception", "traceback", "state"]))
            for task in state.tasks.values()
        ]

    def close(self) -> None:
        self._heard.close()
        self._client.close()


class Logs:
    """Carillon's lines, in both formats."""

    #: The most that a user may ask for: Celery's ``-l debug`` rules libraries, too, but in workers and beats alone.
    LEVELS = dict.fromkeys(("carillon", "celery", "celery.worker", "kombu"), "DEBUG") | {"": "INFO"}
    #: Loggers of the target, which is no part of Carillon.
    THEIRS = ("aiohttp.access", "aiohttp.server", "asyncio")

    def __init__(self, path: Path) -> None:
        self._handlers: dict[str, logging.FileHandler] = {}
        self._root = logging.getLogger()
        self._levels = {name: logging.getLogger(name).level for name in self.LEVELS}
        for name in telemetry.FORMATS:
            handler = logging.FileHandler(path / f"{name}.log")
            handler.setFormatter(telemetry.formatter(name))
            handler.addFilter(lambda record: not record.name.startswith(self.THEIRS))
            self._root.addHandler(handler)
            self._handlers[name] = handler
        for name, level in self.LEVELS.items():
            logging.getLogger(name).setLevel(level)

    def show_locals(self) -> None:
        """Show locals from here on, as structlog's defaults do."""
        for name, handler in self._handlers.items():
            handler.setFormatter(_with_locals(name))

    def texts(self) -> Iterator[tuple[str, str]]:
        for name, handler in self._handlers.items():
            handler.flush()
            yield f"log, {name}", Path(handler.baseFilename).read_text()

    def close(self) -> None:
        for handler in self._handlers.values():
            self._root.removeHandler(handler)
            handler.close()
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)


def _with_locals(name: str) -> logging.Formatter:
    json_lines = [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    shown = structlog.dev.RichTracebackFormatter()
    console = [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=shown)]
    meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return structlog.stdlib.ProcessorFormatter(
        processors=[meta, *(json_lines if name == "json" else console)]
    )


class ServersLog:
    """The log that the tests' Postgres writes from here on; empty where the environment names another server."""

    def __init__(self) -> None:
        self._path = Path(os.environ["CARILLON_DATA_DIR"]) / "log" / "postgres.log"
        self._from = self._path.stat().st_size if self._path.exists() else 0

    @property
    def is_ours(self) -> bool:
        return self._path.exists()

    def text(self) -> str:
        return self._path.read_bytes()[self._from :].decode() if self._path.exists() else ""


def broker() -> "redis.Redis[bytes]":
    return redis.Redis.from_url(settings.REDIS_URL)


def told(found: Iterable[Hit]) -> str:
    """One line a hit."""
    return "\n".join(sorted({f"{hit.place}: {hit.canary} ({hit.encoding})" for hit in found}))
