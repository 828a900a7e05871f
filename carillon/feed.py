"""The event feed as it grows: a stream where there is one, pages where there is none.

Keeps true: each event comes once and in order, even if connections break in between. Every page and every stream begins
after the last event that was given out.
"""

import json
from collections.abc import Iterator
from typing import Any

import requests

from carillon import client as http
from carillon.client import Client
from carillon.errors import Problem, Unreachable
from carillon.output import say

Event = dict[str, Any]
PAGE = 500
POLL_SECONDS = 2.0
RETRY_SECONDS = 1.0
#: Pages are read this many times before a stream is tried again.
POLLS = 15
START = "start"
#: Streams are few; a proxy may not know them.
_NO_STREAM = (406, 429, 503)


def follow(client: Client, *, after: str | None, streams: bool) -> Iterator[Event]:
    """Events without end, from ``after`` on (``start``: all that are kept; None: those to come).

    Waits for a server that goes away. Raises ``Problem`` for a refusal that waiting does not mend, and ``Unreachable``
    if there is no server at the very beginning.
    """
    feed = Feed(client, client.get("/events", after="latest")["cursor"] if after is None else after)
    yield from feed.pages()
    polls, told = 0, False
    while True:
        try:
            if streams and polls == 0:
                yield from feed.stream()
                http.pause(RETRY_SECONDS)
            else:
                http.pause(POLL_SECONDS)
                yield from feed.pages()
            polls, told = max(0, polls - 1), False
        except (Unreachable, Problem) as failure:
            if isinstance(failure, Problem) and not _may_pass(failure.status):
                raise
            if isinstance(failure, Unreachable) and not told:
                say(*failure.lines, "Waiting for the server; no event will be missed.")
                told = True
            polls = POLLS


def _may_pass(status: int) -> bool:
    return status in _NO_STREAM or status >= 500


class Feed:
    """The feed after ``place``, which moves with each event that is given out."""

    def __init__(self, client: Client, place: str) -> None:
        self._client, self.place = client, place

    def pages(self) -> Iterator[Event]:
        """All events there are by now."""
        more = True
        while more:
            after = {} if self.place == START else {"after": self.place}
            page = self._client.get("/events", limit=PAGE, **after)
            for event in page["results"]:
                self.place = event["id"]
                yield event
            self.place, more = page["cursor"], page["more"]

    def stream(self) -> Iterator[Event]:
        """One stream to its end, which the server sets after a minute. Raises ``Unreachable`` when it breaks."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": self.place}
        with self._client.stream("/events", headers=headers) as answer:
            if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise Unreachable("The server does not answer with a stream.")
            data: list[str] = []
            try:
                # Byte by byte: a larger read would wait for bytes that are still to come.
                for raw in answer.iter_lines(chunk_size=1):
                    line = raw.decode()
                    if line.startswith("data:"):
                        data.append(line.removeprefix("data:").removeprefix(" "))
                    elif not line and data:
                        event = json.loads("\n".join(data))
                        self.place, data = event["id"], []
                        yield event
            except (requests.RequestException, ValueError) as error:
                raise Unreachable(f"The stream broke: {error}") from None
