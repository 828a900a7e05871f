"""A hostile tenant: all that an ordinary key can do to others, at once, while another tenant's calls are timed."""

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import redis

from chaos import history
from chaos.faults.fault import Fault
from chaos.history import Attacked
from chaos.load.hostile import ATTACKS, HOSTILE, OWN_QUEUE
from chaos.stage.cluster import WORKERS, StageError
from chaos.stage.processes import ManagedProcess
from jobs.conf import EngineSettings
from scheduler_project.embedded import paths
from stage.processes import signalled

#: The cap on its triggers at work at once: it has more slow webhooks than that.
CAP = 300
#: The bytes that one message takes in Redis.
MESSAGE_BYTES = 100_000
#: How long the other tenant's calls are timed before it begins: its cost is reported beside these times.
CALM_SECONDS = 10.0
REPORT_SECONDS = 60.0


class HostileTenant(Fault):
    """``chaos.load.hostile`` with an ordinary key, beside ``chaos.load.probe`` with the key of a tenant of the load."""

    number, hold_seconds, after_seconds = 29, 60.0, 30.0
    long_hold_seconds = 600.0
    affects = (HOSTILE,)
    silent_names = True

    def aim(self, strike: int) -> str:
        if not self.tenant(HOSTILE, max_in_flight=CAP):
            self._set_status("active")
        self._strike = strike
        self._undo = ExitStack()
        self._probes = self._file("probes")
        other = next(iter(self.caller.keys))
        self._begin("probe", "-m", "chaos.load.probe", self.caller.url, str(self._probes), tenant=other)
        self.cluster.wait(CALM_SECONDS)
        return (
            f"a hostile tenant for {self.hold_seconds:g} s: slow targets, dead names, giant complaints, schema bombs, "
            "floods of queues, half-sent requests, writes, waiting claims"
        )

    def inject(self) -> None:
        self._report = self._file("report")
        self._attacker = self._begin(
            HOSTILE, "-m", "chaos.load.hostile", self.caller.url, str(self._report), tenant=HOSTILE
        )

    def heal(self) -> None:
        """End the attacks, then suspend the tenant, as an operator would; its firings are not executed any more."""
        with self._undo:
            signalled(self._attacker.family()[:1], signal.SIGTERM)
            self.cluster.must("the hostile tenant's report", self._reported, seconds=REPORT_SECONDS)
            self._set_status("suspended")
        report = json.loads(self._report.read_text())
        answers: dict[str, dict[str, int]] = report["answers"]
        if untried := [attack for attack in ATTACKS if not answers.get(attack)]:
            raise StageError(f"The hostile tenant did not come to {', '.join(untried)}: nothing is shown.")
        limits = {
            "webhooks at once": [report["at_once"], CAP],
            "jobs for others' queues": [answers["others' queues"].get("201", 0), 0],
            **self._queues(),
        }
        attacked = Attacked(id=f"{self.number}.{self._strike}", answers=answers, limits=limits)
        self.cluster.journal.note(attacked)
        for line in history.read(self._probes):
            self.cluster.journal.note(line)

    def _reported(self) -> bool:
        if not self._report.exists() and not self._attacker.family():
            raise StageError(f"the hostile tenant's program failed:\n{self._attacker.last_words()}")
        return self._report.exists()

    def _queues(self) -> dict[str, list[float]]:
        """The messages and bytes in its queues in Redis, each with its limit."""
        settings = EngineSettings()
        with redis.Redis.from_url(paths.embedded_redis_url(self.cluster.home)) as client:
            names = list(client.scan_iter(f"{OWN_QUEUE}*"))
            lengths = [int(client.llen(name)) for name in names]
            held = sum(int(client.memory_usage(name, samples=0) or 0) for name in names)
        # Each process asks before it writes, so all of them may find the last place at once.
        at_once = WORKERS * self.cluster.concurrency
        return {
            "messages in a queue": [max(lengths, default=0), settings.queue_max_messages + at_once],
            "bytes in queues": [held, settings.tenant_queue_bytes + at_once * MESSAGE_BYTES],
        }

    def _set_status(self, status: str) -> None:
        self.cluster.query(f"UPDATE tenants_tenant SET status = '{status}' WHERE slug = '{HOSTILE}'")

    def _begin(self, name: str, *argv: str, tenant: str) -> ManagedProcess:
        environment = {**self.cluster.plain_environment(), "API_KEY": self.caller.keys[tenant]}
        actor = ManagedProcess(name, argv, environment, self.cluster.logs / f"{name}.log")
        actor.start()
        self._undo.callback(lambda: actor.process and actor.process.wait())
        self._undo.callback(lambda: signalled(actor.family(), signal.SIGKILL))
        return actor

    def _file(self, what: str) -> Path:
        return self.cluster.home / f"hostile-{what}-{self._strike}"
