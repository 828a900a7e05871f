"""A collector of traces and a target of webhooks in one: it decodes the spans it is sent, and keeps the headers."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """``url`` for the exporter, ``hook`` for webhooks. ``hooks`` are the headers of the requests there."""

    def __init__(self) -> None:
        self.hooks: list[dict[str, str]] = []
        self._spans: list[Any] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.path == "/v1/traces":
                    outer._take(ExportTraceServiceRequest.FromString(body))
                else:
                    outer.hooks.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """The attributes tell of the requests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.hook = f"{self.url}/hook"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _take(self, request: ExportTraceServiceRequest) -> None:
        for of_resource in request.resource_spans:
            [service] = [each for each in of_resource.resource.attributes if each.key == "service.name"]
            assert service.value.string_value == "carillon"
            for of_scope in of_resource.scope_spans:
                self._spans += of_scope.spans

    def spans_of(self, trace_id: str) -> dict[str, Any]:
        """The spans of a trace, by name."""
        return {span.name: span for span in list(self._spans) if span.trace_id.hex() == trace_id}
