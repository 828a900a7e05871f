"""A web server as README starts it, on the tests' database, and calls of it."""

import json
import os
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stage.processes import free_port, kill_tree, start_python
from stage.waiting import wait_until
from tests.cluster.stage import own_database_url

ROOT = Path(__file__).resolve().parents[2]
#: The line that README has under "On many machines", word for word.
[LINE] = re.findall(r"^gunicorn (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)


class Web:
    """One web process; ``options`` stand on the command line."""

    def __init__(self, log: Path, *options: str, **environment: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.process = start_python(
            ["-m", "gunicorn", *LINE.split(), "--bind", self.address, *options],
            environment=os.environ
            | {"DATABASE_URL": own_database_url(), "WEB_CONCURRENCY": "1"}
            | environment,
            log=log,
        )

    def ask(
        self, path: str, *, key: str = "", accept: str = "*/*", timeout: float = 5, body: Any = None
    ) -> Any:
        """The answer, open: its body is not yet read."""
        headers = {"Accept": accept, "Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data=data, headers=headers)
        return urllib.request.urlopen(request, timeout=timeout)

    def serves(self) -> bool:
        assert self.process.poll() is None, "gunicorn ended"
        try:
            return self.ask("/livez", timeout=2).status == 200
        except OSError:
            return False

    def connect(self, *, timeout: float = 5) -> socket.socket:
        host, port = self.address.split(":")
        return socket.create_connection((host, int(port)), timeout=timeout)


@contextmanager
def serving(log: Path, *options: str, **environment: str) -> Iterator[Web]:
    web = Web(log, *options, **environment)
    try:
        wait_until(web.serves, timeout=60)
        yield web
    finally:
        kill_tree(web.process.pid)
        web.process.wait(10)
