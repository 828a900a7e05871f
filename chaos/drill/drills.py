"""The drills, one class each: the fault, the alert that reports it, and its page's steps as an operator takes them."""

import json
import signal
from abc import ABC, abstractmethod
from typing import Any, ClassVar
from uuid import uuid4

import psutil

from chaos.stage.cluster import Cluster, StageError
from chaos.stage.processes import ManagedProcess
from chaos.stage.proxy import Weather
from stage.processes import signalled


class Operator:
    """The engineer on call: the command line with a tenant's key, and with one of the installation."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.tenant = "acme"
        self._key = cluster.make_tenant(self.tenant, max_in_flight=10_000)
        made = json.loads(cluster.manage("create_operator_key", "drill", "--json"))
        self._operator_key = str(made["api_key"])

    def carillon(self, *arguments: str, installation: bool = False) -> str:
        """The output of ``carillon …``. Raises ``StageError`` when it fails."""
        environment = {
            **self._cluster.plain_environment(),
            "CARILLON_URL": f"http://{self._cluster.web}",
            "CARILLON_API_KEY": self._operator_key if installation else self._key,
        }
        done = self._cluster.beside("-m", "carillon", *arguments, environment=environment)
        if done.returncode:
            raise StageError(f"carillon {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def make_jobs(
        self, count: int, *, job_type: str, payload: dict[str, Any], every: int, **rest: Any
    ) -> str:
        """Make interval jobs, labelled as one crew; returns the label."""
        crew = f"drill-{uuid4().hex[:8]}"
        jobs = [
            {
                "name": f"{crew}-{n}",
                "labels": {"crew": crew},
                "job_type": job_type,
                "payload": payload,
                "schedule": {"type": "interval", "every_seconds": every},
                "overlap_policy": "allow",
                "max_concurrent": 1000,
                "misfire_policy": "fire_all",
                **rest,
            }
            for n in range(count)
        ]
        file = self._cluster.home / f"{crew}.json"
        file.write_text(json.dumps({"jobs": jobs}))
        self.carillon("bulk", "create", "--file", str(file))
        return crew


class Drill(ABC):
    """One fault and its page. ``job_type``: that of its alert, if the alert is given for each type. ``due_seconds``:
    the time until the alert's condition is true. ``clears``: the alert ends with the fault, not with a window of ten
    minutes.
    """

    page: ClassVar[str]
    fault: ClassVar[str]
    alert: ClassVar[str]
    job_type: ClassVar[str] = ""
    due_seconds: ClassVar[float] = 30.0
    clears: ClassVar[bool] = True

    def __init__(self, cluster: Cluster, operator: Operator) -> None:
        self.cluster, self.operator = cluster, operator
        [(self.began_at,)] = cluster.query("SELECT clock_timestamp()")

    @abstractmethod
    def strike(self) -> None:
        """Break it."""

    @abstractmethod
    def steps(self) -> None:
        """Take the steps of the page."""

    @abstractmethod
    def is_over(self) -> bool:
        """Whether the trouble is over, by the sign that the page names."""

    def rescue(self) -> None:  # noqa: B027 - some faults leave nothing behind
        """Undo the fault after a drill that failed, so that the next one can be tried."""

    def fires_again(self) -> bool:
        """Whether a firing that fell due in the last 5 s has succeeded."""
        return bool(
            self.cluster.query(
                "SELECT 1 FROM jobs_trigger WHERE state = 'succeeded' AND due_at > clock_timestamp() - interval '5 s' "
                "LIMIT 1"
            )
        )

    def count(self, where: str) -> int:
        [(count,)] = self.cluster.query(f"SELECT count(*) FROM jobs_trigger WHERE {where}")
        return int(count)


class _Frozen(Drill):
    """Processes that are alive and do nothing."""

    def strike(self) -> None:
        self.crew = self.operator.make_jobs(10, job_type="noop", payload={}, every=1)
        self.cluster.must("firings", self.fires_again, seconds=30)
        self.frozen = self.victims()
        signalled(self.frozen, signal.SIGSTOP)

    @abstractmethod
    def victims(self) -> list[psutil.Process]: ...

    def is_over(self) -> bool:
        if not self.fires_again():
            return False
        self.operator.carillon("bulk", "delete", "--labels", f"crew={self.crew}", "--yes")
        return True

    def rescue(self) -> None:
        signalled(self.frozen, signal.SIGCONT)

    def restart(self, actors: list[ManagedProcess]) -> None:
        for actor in actors:
            self.cluster.processes.kill(actor)


class NoLeader(_Frozen):
    page, fault, alert = "jobs-are-not-running", "SIGSTOP to all beats", "CarillonNoLeader"

    def victims(self) -> list[psutil.Process]:
        return [process for beat in self.cluster.processes.named("beat") for process in beat.family()]

    def steps(self) -> None:
        self.restart(self.cluster.processes.named("beat"))


class NoWorker(_Frozen):
    job_type = "noop"
    page, fault, alert = "jobs-are-not-running", "SIGSTOP to all workers", "CarillonQueueUnserved"

    def victims(self) -> list[psutil.Process]:
        return [process for worker in self.cluster.processes.named("worker") for process in worker.family()]

    def steps(self) -> None:
        self.restart(self.cluster.processes.named("worker"))


class DatabaseFrozen(_Frozen):
    page, fault, alert = "postgres-is-full-or-slow", "SIGSTOP to Postgres", "CarillonDatabaseAway"

    def victims(self) -> list[psutil.Process]:
        server = self.cluster.database.server.running()
        assert server is not None
        return [server, *server.children(recursive=True)]

    def steps(self) -> None:
        signalled(self.frozen, signal.SIGCONT)


class BrokerFrozen(_Frozen):
    page, fault, alert = "the-broker-is-gone", "SIGSTOP to Redis", "CarillonBrokerAway"

    def victims(self) -> list[psutil.Process]:
        server = self.cluster.redis.running()
        assert server is not None
        return [server]

    def steps(self) -> None:
        signalled(self.frozen, signal.SIGCONT)


class LeasesExpired(_Frozen):
    job_type = "noop"
    page, fault, alert = "jobs-run-twice", "workers killed, and the beats frozen", "CarillonLeasesExpired"
    due_seconds = 60.0

    def victims(self) -> list[psutil.Process]:
        slow = self.operator.make_jobs(4, job_type="noop", payload={"sleep_ms": 30_000}, every=2)
        # Other jobs run, too, and end before anybody notices that their worker is gone.
        of_it = f"SELECT job_id FROM jobs_joblabel WHERE key = 'crew' AND value = '{slow}'"
        long = f"state = 'running' AND job_id IN ({of_it})"
        self.cluster.must("long work", lambda: self.count(long) > 1, seconds=30)
        self.operator.carillon("bulk", "pause", "--labels", f"crew={slow}", "--yes")
        self.restart(self.cluster.processes.named("worker"))
        return [process for beat in self.cluster.processes.named("beat") for process in beat.family()]

    def steps(self) -> None:
        self.restart(self.cluster.processes.named("beat"))

    def is_over(self) -> bool:
        expired = self.count("state = 'running' AND lease_expires_at < clock_timestamp()")
        return not expired and super().is_over()


class _Calls(Drill):
    """Webhooks to the receiver, over a link that can be cut."""

    job_type, clears = "webhook", False
    attempts: ClassVar[int]

    def cut(self) -> None:
        if ("target", "receiver") in self.cluster.proxies.links:
            self.port = self.cluster.proxies.links["target", "receiver"].port
        else:
            self.port = self.cluster.proxies.add(
                "target", "receiver", int(self.cluster.receiver_url.rpartition(":")[2])
            )
        self.host = f"127.0.0.1:{self.port}"
        self.cluster.proxies.set("target", "receiver", Weather(refuse=True))

    def strike(self) -> None:
        self.cut()
        retry = {
            "max_attempts": self.attempts,
            "backoff": "fixed",
            "initial_delay_seconds": 1,
            "jitter": "none",
        }
        self.crew = self.operator.make_jobs(
            20, job_type="webhook", payload={"url": f"http://{self.host}/drill"}, every=2, retry_policy=retry
        )

    def mend(self) -> None:
        self.cluster.proxies.set("target", "receiver", Weather())

    def replay(self) -> None:
        since = self.began_at.isoformat()
        self.operator.carillon(
            "bulk", "replay", "--reason", "exhausted", "--after", since, "--per-second", "100", "--yes"
        )

    def is_over(self) -> bool:
        """No dead trigger is left, and firings succeed."""
        died = self.count(
            f"state = 'dead' AND created_at > '{self.began_at.isoformat()}' AND job_type = 'webhook'"
        )
        if died or not self.fires_again():
            return False
        self.operator.carillon("bulk", "delete", "--labels", f"crew={self.crew}", "--yes")
        return True

    def rescue(self) -> None:
        self.mend()


class TargetDown(_Calls):
    page, fault, alert = "a-target-is-down", "a target refuses all connections", "CarillonFailing"
    attempts = 2

    def steps(self) -> None:
        self.operator.carillon("targets", "pause", self.host, "--reason", "It is down.", installation=True)
        self.mend()
        self.operator.carillon("targets", "resume", self.host, installation=True)
        self.replay()


class RetriesExplode(_Calls):
    page, fault, alert = "retries-explode", "every call fails and is repeated", "CarillonRetrying"
    attempts = 5

    def steps(self) -> None:
        self.operator.carillon("bulk", "pause", "--labels", f"crew={self.crew}", "--yes")
        self.mend()
        self.operator.carillon(
            "bulk", "resume", "--labels", f"crew={self.crew}", "--per-second", "5", "--yes"
        )
        self.replay()


class RunsFail(_Calls):
    page, fault, alert = "runs-of-workflows", "what each run calls refuses connections", "CarillonRunsFailing"
    job_type, attempts = "", 1

    def strike(self) -> None:
        self.cut()
        self.crew = f"drill-{uuid4().hex[:8]}"
        call = {"job_type": "webhook", "payload": {"url": f"http://{self.host}/drill"}}
        load = {**call, "retry_policy": {"max_attempts": self.attempts}}
        every = {"schedule": {"type": "interval", "every_seconds": 1}, "overlap_policy": "allow"}
        file = self.cluster.home / f"{self.crew}.json"
        file.write_text(
            json.dumps({"name": self.crew, "tasks": {"load": load}, "max_concurrent": 100, **every})
        )
        self.operator.carillon("workflows", "apply", "-f", str(file))

    def steps(self) -> None:
        self.mend()
        failed = ("--workflow", self.crew, "--state", "failed")
        self.operator.carillon("bulk", "retry-runs", *failed, "--per-second", "10", "--yes")

    def is_over(self) -> bool:
        """No failed run is left, and the schedule's runs succeed."""
        of_it = f"run.workflow_id = (SELECT id FROM jobs_workflow WHERE name = '{self.crew}')"
        runs = f"SELECT 1 FROM jobs_workflowrun run WHERE {of_it} AND"
        lately = "state = 'succeeded' AND scheduled_for > clock_timestamp() - interval '5 s'"
        if self.cluster.query(f"{runs} state = 'failed' LIMIT 1") or not self.cluster.query(
            f"{runs} {lately} LIMIT 1"
        ):
            return False
        self.operator.carillon("workflows", "schedule", "pause", self.crew)
        return True


class TenantFloods(Drill):
    job_type = "chaos.nothing"
    page, fault, alert = "a-tenant-floods", "100,000 firings of one tenant, for two workers", "CarillonLate"
    due_seconds = 90.0
    flooder = "flooder"

    def strike(self) -> None:
        if not self.cluster.query(f"SELECT 1 FROM tenants_tenant WHERE slug = '{self.flooder}'"):
            self.cluster.make_tenant(self.flooder, max_in_flight=20)
        self.cluster.backlog("flood", tenant=self.flooder, depth=100_000)

    def steps(self) -> None:
        self.cluster.manage("update_tenant", self.flooder, "--max-in-flight", "5")
        self.cluster.manage("update_tenant", self.flooder, "--status", "frozen")

    def is_over(self) -> bool:
        return not self.count(
            "phase = 'pending' AND job_type = 'chaos.nothing' AND due_at <= clock_timestamp()"
        )


class ClockOff(Drill):
    page, fault, alert = "clocks-disagree", "a worker's clock 30 s ahead", "CarillonClockOff"
    victim = "worker1"

    def strike(self) -> None:
        self.cluster.clocks.set(self.victim, 30)

    def steps(self) -> None:
        self.cluster.clocks.set(self.victim, 0)

    def is_over(self) -> bool:
        return True  # by carillon_clock_offset_seconds, which the alert is made of

    def rescue(self) -> None:
        self.steps()


class BadDeploy(Drill):
    job_type = "drill.report"
    page, fault, alert = (
        "a-bad-deploy",
        "a version of the workers in which a handler raises",
        "CarillonFailing",
    )
    clears = False

    def strike(self) -> None:
        self.flag = self.cluster.home / "bad-deploy"
        self.flag.touch()
        retry = {"max_attempts": 1}
        self.crew = self.operator.make_jobs(
            10, job_type="drill.report", payload={}, every=2, retry_policy=retry
        )

    def steps(self) -> None:
        self.operator.carillon(
            "installation", "pause", "drill.report", "--reason", "Bad deploy.", installation=True
        )
        self.flag.unlink()
        for worker in self.cluster.processes.named("worker"):
            self.cluster.restart(worker)
        self.operator.carillon("installation", "resume", "drill.report", installation=True)
        since = self.began_at.isoformat()
        self.operator.carillon("bulk", "replay", "--job-type", "drill.report", "--after", since, "--yes")

    def is_over(self) -> bool:
        if self.count("state = 'dead' AND job_type = 'drill.report'") or not self.fires_again():
            return False
        self.operator.carillon("bulk", "delete", "--labels", f"crew={self.crew}", "--yes")
        return True


#: By the name that the command line takes. Drills that keep an alert of all job types alive come last.
DRILLS: dict[str, type[Drill]] = {
    "no-leader": NoLeader,
    "no-worker": NoWorker,
    "broker": BrokerFrozen,
    "database": DatabaseFrozen,
    "clock": ClockOff,
    "leases": LeasesExpired,
    "flood": TenantFloods,
    "bad-deploy": BadDeploy,
    "target": TargetDown,
    "runs": RunsFail,
    "retries": RetriesExplode,
}
