"""The faults by their numbers in docs/chaos.md. A new one is a class here and a row of ``judge.limits.OF_FAULT``."""

from chaos.faults.fault import Fault
from chaos.faults.of_clocks import ClockSkew, DatabaseTime
from chaos.faults.of_embedded import EmbeddedServersDie
from chaos.faults.of_handlers import BadHandler
from chaos.faults.of_hostile import HostileTenant
from chaos.faults.of_hosts import DatabaseHostCutOff, HostCutOff, WorkersHostCutOff
from chaos.faults.of_jobs import BadNames, BadSink, Poison
from chaos.faults.of_links import Partition, SlowServers
from chaos.faults.of_locks import RowLock, TableLock
from chaos.faults.of_machines import AsynchronousFailover, DiskFull, Failover
from chaos.faults.of_points import CrashPoints
from chaos.faults.of_processes import LeaderDies, LeaderFreezes, RollingDeploy, WorkerDies, WorkerFreezes
from chaos.faults.of_servers import BrokerForgets, PostgresCrashes, PostgresHangs, SlowDatabase
from chaos.faults.of_tenants import BadTenant, Crowd

FAULTS: dict[int, type[Fault]] = {
    kind.number: kind
    for kind in (
        WorkerDies,
        LeaderDies,
        LeaderFreezes,
        WorkerFreezes,
        PostgresCrashes,
        PostgresHangs,
        Failover,
        BrokerForgets,
        Partition,
        ClockSkew,
        DiskFull,
        SlowDatabase,
        BadSink,
        CrashPoints,
        RollingDeploy,
        Poison,
        AsynchronousFailover,
        RowLock,
        TableLock,
        SlowServers,
        BadHandler,
        BadNames,
        BadTenant,
        Crowd,
        DatabaseTime,
        EmbeddedServersDie,
        HostileTenant,
        HostCutOff,
        WorkersHostCutOff,
        DatabaseHostCutOff,
    )
}

__all__ = ["FAULTS", "Fault"]
