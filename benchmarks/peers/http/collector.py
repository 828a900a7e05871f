"""A collector of traces that takes all spans and keeps none: ``python -m benchmarks.peers.http.collector PORT``."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Collector).serve_forever()
