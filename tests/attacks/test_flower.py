"""A caller without a login asks Flower what runs here, reaches it from elsewhere, or frames it.

Control: Flower with its own defaults, in another process, is open in each of these ways.
"""

import base64
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests

from stage.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent
LOGIN = "admin:correct-horse"
AUTHORIZED = {"Authorization": f"Basic {base64.b64encode(LOGIN.encode()).decode()}"}


class Flower:
    def __init__(self, *arguments: str, login: str = LOGIN) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [
            sys.executable,
            "-m",
            "celery",
            *arguments,
            "flower",
            f"--port={port}",
            "--enable_events=False",
        ]
        env = os.environ | {"FLOWER_BASIC_AUTH": login, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def answers(self) -> bool:
        try:
            return self.get("/healthcheck").status_code == 200
        except requests.ConnectionError:
            assert self.process.poll() is None
            return False

    def get(self, path: str, **headers: str) -> requests.Response:
        return requests.get(self.url + path, headers=headers, timeout=10)

    def addresses(self) -> set[str]:
        connections = psutil.Process(self.process.pid).net_connections("tcp")
        return {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def flowers() -> Iterator[dict[str, Flower]]:
    started = {
        "ours": Flower("-A", "scheduler_project"),
        "without a login": Flower("-A", "scheduler_project", login=""),
        "as it comes": Flower("-b", "memory://"),
    }
    try:
        for one in started.values():
            wait_until(one.answers, timeout=60)
        yield started
    finally:
        for one in started.values():
            one.stop()


def test_tells_its_figures_to_nobody_without_the_login(flowers: dict[str, Flower]) -> None:
    assert flowers["as it comes"].get("/metrics").status_code == 200  # control
    ours = flowers["ours"]
    assert ours.get("/metrics").status_code == 401
    assert ours.get("/metrics", Authorization="Basic YTpi").status_code == 401
    assert "flower" in ours.get("/metrics", **AUTHORIZED).text
    assert flowers["without a login"].get("/metrics").status_code == 401


def test_says_of_its_health_that_it_lives(flowers: dict[str, Flower]) -> None:
    assert flowers["ours"].get("/healthcheck").text == "OK"


def test_listens_on_this_machine_alone_unless_told_otherwise(flowers: dict[str, Flower]) -> None:
    assert flowers["as it comes"].addresses() & {"0.0.0.0", "::"}  # control
    assert flowers["ours"].addresses() == {"127.0.0.1"}


def test_is_framed_by_no_site(flowers: dict[str, Flower]) -> None:
    assert "X-Frame-Options" not in flowers["as it comes"].get("/", **AUTHORIZED).headers  # control
    for path in ("/", "/workers", "/nowhere"):
        assert flowers["ours"].get(path, **AUTHORIZED).headers["X-Frame-Options"] == "DENY", path
