"""The stage for the contestants: servers of the run's own, and processes that are gone when the run ends."""

from benchmarks.stage.actor import MIB, BenchError, ManagedProcess
from benchmarks.stage.servers import WORKER_PROCESSES, Stage

__all__ = ["MIB", "WORKER_PROCESSES", "BenchError", "ManagedProcess", "Stage"]
