"""Faults of the servers of ``manage.py up``, which runs a second, small Carillon beside the stage's."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import psutil

from chaos.faults.fault import Fault
from chaos.history import Died, TenantMade
from chaos.load.definitions import Plan
from chaos.stage.cluster import StageError
from chaos.stage.processes import ManagedProcess
from scheduler_project.embedded.postgres import EmbeddedPostgres
from scheduler_project.embedded.redis import EmbeddedRedis
from scheduler_project.embedded.server import EmbeddedServer
from stage.processes import free_port

TENANT = "embedded"
CAP = 1000
JOBS = 6
START_SECONDS = 90.0
#: Longer than a supervisor may need. After that the fault starts it by hand, and the judge is told.
BACK_SECONDS = 45.0


class EmbeddedServersDie(Fault):
    """``kill -9`` of the Postgres, or of the Redis, of a ``manage.py up``, which must start it again."""

    number, strikes, long_strikes, gap_seconds, after_seconds = 28, 2, 10, 15.0, 20.0
    affects = (TENANT,)
    _servers: Sequence[EmbeddedServer] = ()

    def aim(self, strike: int) -> str:
        if not self._servers:
            self._start()
        self.server = self._servers[strike % 2]
        return f"kill -9 of the embedded {self.server.name} under `manage.py up`"

    def inject(self) -> None:
        process = self.server.running()
        if process is None:
            raise StageError(f"the embedded {self.server.name} does not run")
        self._killed = process.pid
        process.kill()

    def heal(self) -> None:
        """Wait until it serves again by itself. Otherwise start it by hand, and record that as a death."""
        deadline = time.monotonic() + BACK_SECONDS
        while time.monotonic() < deadline:
            if self._is_back() and self._ready():
                return
            self.cluster.wait(0.2)
        says = f"killed, and not started again in {BACK_SECONDS:g} s"
        name = f"the embedded {self.server.name}"
        self.cluster.journal.note(Died(at=time.time(), process=name, code=-9, says=says))
        self.cluster.restart(self._up)
        self.cluster.must("`manage.py up` to serve again", self._ready, seconds=START_SECONDS)

    def _is_back(self) -> bool:
        try:
            process = self.server.running()
            return process is not None and process.pid != self._killed
        except psutil.NoSuchProcess:
            return False

    def _start(self) -> None:
        data_dir, port = Path(self.cluster.home) / "embedded", free_port()
        options = ("--data-dir", str(data_dir), "--port", str(port), "--no-flower", "--concurrency", "2")
        environment = {
            **self.cluster.plain_environment(),
            "CARILLON_DATA_DIR": str(data_dir),
            "CARILLON_WEBHOOK_ALLOW_NETWORKS": "127.0.0.0/8",
        }
        argv = ("manage.py", "up", *options)
        self._up = ManagedProcess("up", argv, environment, self.cluster.logs / "up.log")
        self._servers = EmbeddedPostgres(data_dir=data_dir), EmbeddedRedis(data_dir=data_dir)
        self._address = f"http://127.0.0.1:{port}"
        self.cluster.processes.start(self._up)
        self.cluster.must("`manage.py up` to serve", self._ready, seconds=START_SECONDS)
        key = ("--api-key", "chaos", "--max-in-flight", str(CAP), "--json")
        made = self.cluster.beside("manage.py", "create_tenant", TENANT, *key, environment=environment)
        self.caller.keys[TENANT] = json.loads(made.stdout)["api_key"]
        self.caller.urls[TENANT] = f"{self._address}/api/v1"
        self.cluster.journal.note(TenantMade(slug=TENANT, max_in_flight=CAP))
        for n in range(JOBS):
            schedule = {"type": "interval", "every_seconds": 2}
            self.caller.make(Plan(tenant=TENANT, name=f"embedded-{n}", schedule=schedule))

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._address}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
