"""A whole Carillon for one run: durable Postgres and Redis (or RabbitMQ, and no Redis), web, two beats, four workers, a
receiver.

Each process reaches Postgres and the broker through a proxy of its own (``chaos.stage.proxy``). With ``hosts`` there is
no proxy: the processes and servers are spread over hosts (``chaos.stage.hosts``). A caller of ``wait`` also tends the
processes. The director's own look at the database goes by the socket, past every proxy and network.
"""

import json
import os
import random
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Self

import psycopg

from chaos.history import Journal
from chaos.stage.clocks import Clocks
from chaos.stage.database import Database
from chaos.stage.disk import Disk
from chaos.stage.hosts import Host, HostedRedis, Network
from chaos.stage.names import SilentServer
from chaos.stage.processes import ManagedProcess, Processes
from chaos.stage.proxy import Proxies, Weather
from scheduler_project.embedded import paths
from scheduler_project.embedded.redis import EmbeddedRedis
from scheduler_project.embedded.stack import EmbeddedStack
from scheduler_project.processes.up import stand_back
from stage.processes import BEAT, CELERY, free_port, run_python, tail
from stage.rabbitmq import RabbitMQ, lacks
from stage.waiting import NotInTime, wait_until

#: As README and compose have it: no process runs both webhooks and plain handlers, which can hold its interpreter.
SERVED = (("-Q", "jobs.webhook"), ("-X", "jobs.webhook")) * 2
BEATS, WORKERS, PULL_WORKERS = 2, len(SERVED), 2
TURN_SECONDS = 0.05
#: The host of each process, where they are spread. Both kinds of workers are on each host of workers.
DATABASE_HOST = "database"
HOSTS = {
    "web": "web",
    "beat1": "beat1",
    "beat2": "beat2",
    "worker1": "workers1",
    "worker2": "workers1",
    "worker3": "workers2",
    "worker4": "workers2",
}
#: Brokers by their name, and the queues of RabbitMQ's.
BROKERS: dict[str, Literal["classic", "quorum"] | None] = {
    "redis": None,
    "rabbitmq": "classic",
    "rabbitmq-quorum": "quorum",
}
#: A worker that was asked to end waits for its handlers, which have 10 s (``definitions``) and 5 more to heed that.
RESTART_PATIENCE_SECONDS = 30.0


class StageError(RuntimeError):
    """The run could not be carried out; the message says why."""


class Cluster:
    """``with Cluster(…) as cluster``: everything is stopped, and its directory removed, at the end."""

    def __init__(
        self,
        *,
        journal: Journal,
        rng: random.Random,
        say: Callable[[str], None],
        environment: Mapping[str, str] | None = None,
        small_disk: bool = False,
        silent_names: bool = False,
        broker: str = "redis",
        concurrency: int = 2,
        hosts: bool = False,
    ) -> None:
        """``broker``: of ``BROKERS``. With RabbitMQ there is no Redis. ``concurrency``: processes of each worker.

        ``hosts``: each group of ``HOSTS``, and Postgres with Redis, on a host of its own.
        """
        self._queues = BROKERS[broker]
        #: The name of its links.
        self.broker_name = "rabbitmq" if self._queues else "redis"
        self.journal, self.rng, self.say = journal, rng, say
        self._small_disk, self._silent_names, self.concurrency = small_disk, silent_names, concurrency
        self._settings = dict(environment or {})
        self.network = Network([DATABASE_HOST, *dict.fromkeys(HOSTS.values())]) if hosts else None
        self.processes = Processes(note=journal.note)
        self.proxies = Proxies(rng=rng)
        #: Where Python must look first, as long as that differs from the usual place.
        self.python_path = ""
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as started:
            self.home = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="carillon-chaos-")))
            self.logs = self.home / "log"
            if self.network:
                started.enter_context(self.network)
            self.disk = started.enter_context(Disk(self.home / "disk", fillable=self._small_disk))
            self.say(f"starting Postgres and {self.broker_name}")
            self._start_servers(started)
            started.enter_context(self.proxies)
            self.clocks = Clocks(self.home)
            self.crash_points = self.home / "crash-points"
            self.crash_points.mkdir()
            self.say("migrating")
            self.manage("migrate", "--no-input", "--skip-checks")
            started.callback(self.processes.stop)
            if self._silent_names:
                self._names = started.enter_context(SilentServer(self.home / "resolv.conf"))
            self._start_all()
            self._exits = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def _start_servers(self, started: ExitStack) -> None:
        host = self.network.hosts[DATABASE_HOST] if self.network else None
        self.database = Database(self.disk.path, log=self.logs / "postgres.log", host=host)
        for name in ("REDIS_URL", "BROKER_URL"):
            os.environ.pop(name, None)
        os.environ["DATABASE_URL"] = self.database.url  # so the stack starts no Postgres of its own
        if self._queues:
            self._start_rabbitmq(started, self._queues)
        stack = EmbeddedStack(data_dir=self.home)
        if host:
            stack.servers = [HostedRedis(data_dir=self.home, host=host)]
        started.enter_context(stack)
        for server in stack.servers:
            assert isinstance(server, EmbeddedRedis)
            self.redis = server
        started.callback(self.database.stop)
        self.database.start()

    def _start_rabbitmq(self, started: ExitStack, queues: Literal["classic", "quorum"]) -> None:
        if missing := lacks():
            raise StageError(f"There is no RabbitMQ on this machine: {missing} is missing.")
        self.rabbitmq = RabbitMQ(data_dir=self.home)
        started.callback(self.rabbitmq.close)
        self.rabbitmq.start()
        os.environ["BROKER_URL"] = self.rabbitmq.url(queues)  # so the stack starts no Redis

    def _start_all(self) -> None:
        self.receiver_log = self.home / "receiver.jsonl"
        port_file = self.home / "receiver.port"
        outside = self.network.outside if self.network else "127.0.0.1"
        receiver = ("-m", "chaos.stage.receiver", str(port_file), str(self.receiver_log), outside)
        self.processes.start(
            ManagedProcess("receiver", receiver, os.environ.copy(), self.logs / "receiver.log")
        )
        self.web_port = free_port()
        on = self.host("web")
        self.web = f"{on.address if on else '127.0.0.1'}:{self.web_port}"
        web = ("-m", "gunicorn", "scheduler_project.wsgi:application", "--bind", self.web)
        self._start("web", web)
        for n in range(1, BEATS + 1):
            self._start(f"beat{n}", BEAT)
        for n, served in enumerate(SERVED, start=1):
            quiet = ("--without-gossip", "--without-mingle", "-n", f"worker{n}@chaos")
            worker = (*CELERY, "worker", *served, "-c", str(self.concurrency), *quiet)
            self._start(f"worker{n}", self._names.argv(*worker) if self._silent_names else worker)
        self.must("web, beats and workers to answer", self._ready, seconds=60)
        self.receiver_url = f"http://{outside}:{port_file.read_text()}"

    def host(self, name: str) -> Host | None:
        """The host of a process, where they are spread."""
        return self.network.hosts[HOSTS[name]] if self.network else None

    def _start(self, name: str, argv: tuple[str, ...]) -> None:
        log, host = self.logs / f"{name}.log", self.host(name)
        self.processes.start(ManagedProcess(name, argv, self._environment(name), log, host))

    def _environment(self, name: str) -> dict[str, str]:
        """The environment of a process, with its own links."""
        return {
            **os.environ,
            **self.clocks.environment(name),
            "PYTHONUNBUFFERED": "1",
            **self._servers(name),
            **self._platform(),
            "CARILLON_WEBHOOK_ALLOW_NETWORKS": self.network.cidr if self.network else "127.0.0.0/8",
            "CARILLON_CRASH_POINTS": str(self.crash_points),
            "CARILLON_HANDLER_MODULES": "chaos.load.handlers",
            **stand_back(),
            **self._settings,
        }

    def _servers(self, name: str) -> dict[str, str]:
        """The servers' URLs: over the hosts' network, or the ports of the process's own proxies."""
        if self.network:
            address = self.network.hosts[DATABASE_HOST].address
            return {
                "DATABASE_URL": f"postgresql://carillon@{address}/carillon?sslmode=disable",
                "REDIS_URL": f"redis://{address}/0",
            }
        port = self.proxies.add(name, "postgres", self.database.socket)
        database = f"postgresql://carillon@127.0.0.1:{port}/carillon?sslmode=disable"
        return {"DATABASE_URL": database, **self._broker_of(name)}

    def _broker_of(self, name: str) -> dict[str, str]:
        """The broker's URL, over a link of the process's own."""
        if self._queues:
            port = self.proxies.add(name, "rabbitmq", self.rabbitmq.port)
            return {"BROKER_URL": self.rabbitmq.url(self._queues, port=port)}
        socket_path = paths._socket_base(self.home) / "redis" / paths.REDIS_SOCKET
        port = self.proxies.add(name, "redis", str(socket_path))
        return {"REDIS_URL": f"redis://127.0.0.1:{port}/0"}

    def _platform(self) -> dict[str, str]:
        """The settings that every process of Carillon must have."""
        return {
            "SECRET_KEY": paths.secret_key(self.home),
            "ALLOWED_HOSTS": "*" if self.network else "127.0.0.1",
            "CARILLON_DATA_DIR": str(self.home),
        }

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.web}/readyz", timeout=2) as answer:
                ready = answer.status == 200
        except OSError:
            return False
        workers = self.query("SELECT count(*) FROM jobs_worker")[0][0]
        elected = self._settings.get("CARILLON_LEADER_ELECTION") != "false"
        return ready and workers == WORKERS and (not elected or self.leader() is not None)

    def leader(self) -> ManagedProcess | None:
        """The beat that leads now."""
        rows = self.query("SELECT holder FROM jobs_lease WHERE expires_at > clock_timestamp()")
        return self.processes.by_pid(int(rows[0][0].split(":")[1])) if rows else None

    def query(self, statement: str) -> list[Any]:
        """Rows of a statement, past every proxy."""
        with psycopg.connect(self.database.url, autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def manage_json(self, *arguments: str) -> Any:
        """The JSON a management command printed, even if it then said that something is wrong."""
        return json.loads(self.manage(*arguments, may_fail=True))

    def manage(self, *arguments: str, may_fail: bool = False) -> str:
        """The output of a management command, which goes by the sockets. Raises ``StageError`` when it fails."""
        done = self.beside("manage.py", *arguments)
        # A command that found something wrong prints it; one that failed prints nothing here.
        if done.returncode and not (may_fail and done.stdout):
            raise StageError(f"manage.py {arguments[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def backlog(self, kind: str, **how_many: object) -> dict[str, str]:
        """Make firings by the ten thousand (``chaos.load.backlog``); returns the ids of their jobs by tenant's id."""
        options = [part for name, value in how_many.items() for part in (f"--{name}", str(value))]
        done = self.beside("-m", "chaos.load.backlog", kind, *options)
        if done.returncode:
            raise StageError(f"no backlog {kind}:\n{done.stdout}{done.stderr}")
        made: dict[str, str] = json.loads(done.stdout)
        return made

    def beside(
        self, *argv: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Python run to its end: with Carillon's settings, by the sockets, past every proxy, or with those given."""
        ours = {
            **os.environ,
            "DATABASE_URL": self.database.url,
            **({} if self._queues else {"REDIS_URL": paths.embedded_redis_url(self.home)}),
            "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
            **({"PYTHONPATH": self.python_path} if self.python_path else {}),
            **self._platform(),
        }
        return run_python(argv, environment=environment or ours)

    def follow(self, *, synchronous: bool) -> None:
        """Give Postgres a standby that follows it over a link of its own: ``standby`` to ``upstream``."""
        if ("standby", "upstream") in self.proxies.links:
            self.proxies.set("standby", "upstream", Weather())
            self.proxies.point("upstream", self.database.socket)
        else:
            self.proxies.add("standby", "upstream", self.database.socket)
        self.database.follow(port=self.proxies.links["standby", "upstream"].port, synchronous=synchronous)

    def make_tenant(self, slug: str, *, max_in_flight: int) -> str:
        """An API key of a new tenant, with the scopes read, write and worker."""
        key = ("--api-key", "chaos", "--scopes", "read,write,worker", "--json")
        cap = ("--max-in-flight", str(max_in_flight))
        made: str = json.loads(self.manage("create_tenant", slug, *key, *cap))["api_key"]
        return made

    @staticmethod
    def plain_environment() -> dict[str, str]:
        """The environment of a process that knows none of the servers."""
        return {name: value for name, value in os.environ.items() if not name.endswith("_URL")}

    def start_pull_workers(self, key: str) -> None:
        """Reference workers that ask with ``key``, each over a link of its own to the web process."""
        for n in range(1, PULL_WORKERS + 1):
            name = f"pull{n}"
            port = self.proxies.add(name, "web", self.web_port)
            environment = {
                **self.plain_environment(),
                **self.clocks.environment(name),
                "PYTHONUNBUFFERED": "1",
                "CARILLON_URL": f"http://127.0.0.1:{port}",
                "CARILLON_API_KEY": key,
            }
            argv = ("-m", "chaos.load.pull_worker")
            self.processes.start(ManagedProcess(name, argv, environment, self.logs / f"{name}.log"))

    def wait(self, seconds: float) -> None:
        """Let the time pass; processes that have ended are started again."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.processes.tend()
            time.sleep(TURN_SECONDS)

    def restart(self, actor: ManagedProcess) -> None:
        """SIGTERM to one process, and wait until the supervisor has started it again. Raises ``StageError``."""
        lives = actor.lives
        self.processes.terminate(actor)
        what = f"{actor.name} to be started again"
        self.must(what, lambda: actor.lives > lives, seconds=RESTART_PATIENCE_SECONDS)

    def must(self, what: str, condition: Callable[[], Any], *, seconds: float) -> Any:
        """Wait until ``condition`` is true and return its value; raises ``StageError`` after ``seconds``."""
        every, tend = TURN_SECONDS * 4, self.processes.tend
        try:
            return wait_until(condition, seconds, what=what, every_seconds=every, meanwhile=tend)
        except NotInTime as error:
            raise StageError(f"{error}. The logs:\n{self.tails()}") from None

    def tails(self) -> str:
        """The last lines of every log."""
        return "\n".join(
            f"{log.name}: {line}" for log in self.logs.glob("*.log") for line in tail(log, 5).splitlines()
        )
