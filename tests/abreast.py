"""Pytest plugin: waiting and computing at the same time, when xdist has four workers or more (``make test``).

Tests of clusters mostly wait for real processes; all others mostly compute. So the last two workers take the other
tests, at a lower priority. The rest of the workers take the clusters, the longest file first. Processes under test get
the processor when they need it, and the others get the rest. A worker with no file of its own kind left helps with the
other kind. A file is never split between two workers.
"""

from collections import OrderedDict
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

#: The lowest ``-n`` at which this plugin acts, and how many of those workers take the tests that compute.
MIN_WORKERS, COMPUTING = 4, 2
#: The computing workers, their servers included, add this to their niceness.
NICENESS = 5
#: The files that take longest, with about the seconds that each takes; all others begin after these.
SECONDS = {
    "tests/cluster/test_kill.py": 110,
    "tests/cluster/test_crash_points.py": 200,
    "tests/interfaces/ledger_audit/test_properties.py": 120,
    "tests/cluster/test_kill_without_election.py": 75,
    "tests/cluster/test_pgbouncer.py": 90,
    "tests/cluster/test_rabbitmq.py": 70,
    "tests/cluster/test_upgrade.py": 70,
    "tests/cluster/test_silent_handlers.py": 60,
    "tests/engine/outages/test_audit.py": 55,
    "tests/cluster/test_caps.py": 48,
    "tests/cluster/test_counts.py": 45,
    "tests/cluster/test_levers.py": 45,
    "tests/cluster/test_reserved_slots.py": 45,
    "tests/cluster/test_poison.py": 44,
    "tests/examples/test_live.py": 40,
    "tests/cluster/test_wake_ups.py": 40,
    "tests/cluster/test_workflows.py": 40,
    "tests/cluster/test_chaos.py": 39,
    "tests/cluster/test_strikes.py": 31,
    "tests/cluster/test_killed_servers.py": 30,
    "tests/cluster/test_servers_away.py": 30,
    "tests/replica/test_processes.py": 30,
    "tests/cluster/test_crowd.py": 28,
    "tests/cluster/test_draining.py": 27,
    "tests/cluster/test_misbehaving_handlers.py": 26,
    "tests/workflows/test_property.py": 25,
    "tests/upgrades/test_event_partitions.py": 20,
    "tests/engine/outages/test_records.py": 20,
    "tests/workflows/schedules/test_firings.py": 18,
    "tests/workflows/test_maps.py": 18,
    "tests/archive/test_archivist.py": 18,
}
CLUSTERS = ("tests/cluster/", "tests/examples/test_live.py", "tests/replica/test_processes.py")


def is_of_clusters(file: str) -> bool:
    """Whether the file, relative to the project, starts clusters."""
    return file.startswith(CLUSTERS)


def is_computing(number: int, *, workers: int) -> bool:
    """Whether the worker with this number, from 0, takes the tests that compute."""
    return workers >= MIN_WORKERS and number >= workers - COMPUTING


class Abreast(LoadFileScheduling):
    """Two queues of files in one: each worker takes the first file of its kind, or else the first file of any kind."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=lambda unit: self._turn(node, *unit)))
        super()._assign_work_unit(node)

    def _turn(self, node: WorkerController, file: str, tests: dict[str, bool]) -> tuple[bool, bool, int]:
        computing = is_computing(int(node.gateway.id.removeprefix("gw")), workers=self.numnodes)
        return is_of_clusters(file) == computing, file not in SECONDS, -SECONDS.get(file, len(tests))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Abreast | None:
    """This plugin's scheduler for ``-n 4 --dist loadfile`` and more; xdist's own for anything else."""
    enough = (config.getoption("numprocesses") or 0) >= MIN_WORKERS
    return Abreast(config, log) if enough and config.getoption("dist") == "loadfile" else None
