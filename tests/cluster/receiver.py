"""An outside witness: an HTTP server that logs every delivery that it answered."""

import json
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Arrival:
    """One answered request. ``received_at`` is this machine's clock, in seconds since 1970."""

    job_id: str
    scheduled_for: datetime
    attempt: int
    fence: int
    execution_id: str
    received_at: float

    @property
    def firing(self) -> tuple[str, datetime]:
        return self.job_id, self.scheduled_for

    @property
    def late_seconds(self) -> float:
        return self.received_at - self.scheduled_for.timestamp()


class Receiver:
    """Answers 200 after ``hold_seconds``, so that a kill finds deliveries in flight. ``deliveries`` is the log."""

    def __init__(self, *, hold_seconds: float = 0.0, port: int = 0) -> None:
        self.deliveries: list[Arrival] = []
        self.started: list[Arrival] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                delivery = Arrival(
                    job_id=self.headers["X-Carillon-Job"],
                    scheduled_for=datetime.fromisoformat(self.headers["X-Carillon-Scheduled-For"]),
                    attempt=int(self.headers["X-Carillon-Attempt"]),
                    fence=int(self.headers["X-Fence-Token"]),
                    execution_id=self.headers["X-Execution-Id"],
                    received_at=time.time(),
                )
                outer.started.append(delivery)
                if hold_seconds:
                    threading.Event().wait(hold_seconds)
                body = json.dumps({"ok": True}).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    return  # the worker was killed while it waited: not delivered
                outer.deliveries.append(delivery)

            def log_message(self, *_: object) -> None:
                """The log is ``deliveries``."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request: object, client_address: object) -> None:
                """A killed worker resets its connections; anything else is a defect of the receiver."""
                if not isinstance(sys.exception(), ConnectionError):
                    super().handle_error(request, client_address)

        self._server = Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
