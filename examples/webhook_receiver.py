"""A receiver of Carillon's webhooks: verifies, does each firing once, refuses late writers.

    pip install standardwebhooks
    SIGNING_SECRET=whsec_… python webhook_receiver.py 9000

Everything else is Python's standard library. The data that it keeps in memory belongs into the database that the work
is done in, in the same transaction: ``done`` as a table with the key as its primary key, ``fences`` as a column of the
rows that are worked on.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from standardwebhooks import Webhook, WebhookVerificationError

LARGEST_BODY = 1_048_576


class Ledger:
    """The idempotency keys of firings that are done, and the highest fence seen of each firing."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.done: set[str] = set()
        self.fences: dict[str, int] = {}

    def take(self, *, key: str, fence: int) -> str:
        """``new``, ``done`` for a firing done before, or ``late`` for an attempt that another has overtaken."""
        with self._lock:
            if key in self.done:
                return "done"
            if fence < self.fences.get(key, 0):
                return "late"
            self.fences[key] = fence
            return "new"

    def finish(self, *, key: str) -> None:
        with self._lock:
            self.done.add(key)


class Receiver(BaseHTTPRequestHandler):
    server: "Server"
    timeout = 30

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_BODY:
            self.answer(413, "too large")
            return
        body = self.rfile.read(length)
        try:
            # The bytes as they came: JSON that is parsed and written again has another signature.
            self.server.webhook.verify(body, dict(self.headers), json_parse=False)
        except WebhookVerificationError:
            self.answer(401, "the signature is not valid")
            return
        key, fence = self.headers["Idempotency-Key"], int(self.headers["X-Fence-Token"])
        match self.server.ledger.take(key=key, fence=fence):
            case "done":
                self.answer(200, "done before")
            case "late":
                self.answer(422, "a later attempt is at it")
            case _:
                self.server.work(json.loads(body or b"null"))
                self.server.ledger.finish(key=key)
                self.answer(200, "done")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a request line may hold a token."""


class Server(ThreadingHTTPServer):
    """``secret`` as ``create_tenant`` or the last rotation showed it."""

    def __init__(self, secret: str, *, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Receiver)
        self.webhook = Webhook(secret)
        self.ledger = Ledger()

    def work(self, document: object) -> None:
        """The work that the webhook asks for."""
        print("working on", document, flush=True)


if __name__ == "__main__":
    Server(os.environ["SIGNING_SECRET"], port=int(sys.argv[1])).serve_forever()
