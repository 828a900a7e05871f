"""Carillon as a contestant: its processes by their ordinary commands, its rows in bulk, its ledger read back."""

from benchmarks.carillon.backlog import add_backlog, add_bursts
from benchmarks.carillon.ledger import POLL_SECONDS, attempts, drain, idle, lags, materialized, started
from benchmarks.carillon.processes import TENANT, WARM_UP, WITHOUT_BATCHING, make_tenant, processes, running
from benchmarks.carillon.registry import (
    Batch,
    add_due_triggers,
    add_fleet,
    add_interval_jobs,
    add_jobs,
    add_one_time_jobs,
)

__all__ = [
    "POLL_SECONDS",
    "TENANT",
    "WARM_UP",
    "WITHOUT_BATCHING",
    "Batch",
    "add_backlog",
    "add_bursts",
    "add_due_triggers",
    "add_fleet",
    "add_interval_jobs",
    "add_jobs",
    "add_one_time_jobs",
    "attempts",
    "drain",
    "idle",
    "lags",
    "make_tenant",
    "materialized",
    "processes",
    "running",
    "started",
]
