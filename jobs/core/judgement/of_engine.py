"""Rules about the engine itself: whether a beat leads, servers answer, clocks agree and room is left."""

from collections.abc import Iterator
from datetime import timedelta

from jobs.core.instants import span
from jobs.core.judgement.figures import Figures
from jobs.core.judgement.reason import Level, Page, Playbook, Reason

#: A leader renews its lease at a third of it. If it is later by this much, something holds it up.
LATE_RENEWAL_SECONDS = 2.0
#: A worker announces itself every ten seconds.
SILENT_SECONDS = 15.0
MATERIALIZATION_LATE_SECONDS = 5.0
FEED_LATE_SECONDS = 120.0
DAY_SECONDS = 86_400
CROWDED_CONNECTIONS = 0.8


def lasting(seconds: float) -> str:
    """Seconds in words; from one second on, in whole seconds."""
    return span(timedelta(seconds=seconds))


def named(name: str, otherwise: str) -> str:
    """The name in backticks; ``otherwise`` if the name is empty, because it must not be shown."""
    return f"`{name}`" if name else otherwise


def some(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def nobody_leads(figures: Figures) -> Iterator[Reason]:
    """Without a leader nothing is materialized or dispatched."""
    leader = figures.leader
    if not figures.election:
        return
    if leader is None:
        yield Reason(
            Level.RED,
            "no beat has ever led, so nothing is dispatched; start one",
            Page.LEASES,
            Playbook.NOT_RUNNING,
        )
    elif leader.seconds_left <= 0:
        since = lasting(-leader.seconds_left)
        text = f"no beat leads for {since}, so nothing is dispatched"
        if leader.holder:
            text += f"; `{leader.holder}` was the last"
        yield Reason(Level.RED, text, Page.LEASES, Playbook.NOT_RUNNING)


def leader_falls_silent(figures: Figures) -> Iterator[Reason]:
    """The lease still holds, but its holder should have renewed it by now."""
    leader = figures.leader
    if not figures.election or leader is None or leader.seconds_left <= 0:
        return
    silent = leader.lease_seconds - leader.seconds_left
    if silent > leader.lease_seconds / 3 + LATE_RENEWAL_SECONDS:
        text = (
            f"{named(leader.holder, 'the beat')} leads and has not renewed its lease for {lasting(silent)}, so it may "
            f"hang; another takes over in {lasting(leader.seconds_left)} if there is one"
        )
        yield Reason(Level.AMBER, text, Page.LEASES, Playbook.NOT_RUNNING)


def broker_is_away(figures: Figures) -> Iterator[Reason]:
    if not figures.broker:
        level = Level.AMBER if figures.brokerless else Level.RED
        what = "messages go through Postgres" if figures.brokerless else "nothing is dispatched"
        yield Reason(
            level, f"the broker does not answer, so {what} until it does", Page.WORKERS, Playbook.BROKER
        )


def dispatch_is_stopped(figures: Figures) -> Iterator[Reason]:
    if stop := figures.stopped:
        text = f"dispatch is stopped for {lasting(stop.seconds)} by `{stop.by}`: {stop.reason.rstrip('.')}"
        yield Reason(Level.RED, text, Page.DISPATCH, Playbook.NOT_RUNNING)


def jobs_wait_for_triggers(figures: Figures) -> Iterator[Reason]:
    late = figures.materialization_lag_seconds
    if late > MATERIALIZATION_LATE_SECONDS:
        text = f"a job waits for its next trigger for {lasting(late)}: the leader's step materialize fails or lags"
        yield Reason(Level.RED, text, Page.LEASES, Playbook.NOT_RUNNING)


def no_worker_is_there(figures: Figures) -> Iterator[Reason]:
    if not figures.workers:
        yield Reason(Level.RED, "no worker is there, so nothing starts", Page.WORKERS, Playbook.NOT_RUNNING)


def rates_are_counted_alone(figures: Figures) -> Iterator[Reason]:
    if not figures.rates:
        text = "Redis, which counts rates for all, does not answer: each process counts by itself"
        yield Reason(Level.AMBER, text, Page.TARGETS, Playbook.BROKER)
    elif figures.bypassed:
        text = f"{_names(figures.bypassed)} let firings pass that no rate limit could be asked for, within ten minutes"
        yield Reason(Level.AMBER, text, Page.TARGETS, Playbook.BROKER)


def a_worker_falls_silent(figures: Figures) -> Iterator[Reason]:
    silent = [worker for worker in figures.workers if worker.silent_seconds > SILENT_SECONDS]
    if silent:
        longest = max(worker.silent_seconds for worker in silent)
        names = _names([worker.name for worker in silent])
        has = "has" if len(silent) == 1 else "have"
        text = f"{names} {has} not been heard of for {lasting(longest)}: killed, frozen or cut off"
        yield Reason(Level.AMBER, text, Page.WORKERS, Playbook.NOT_RUNNING)


def clocks_are_off(figures: Figures) -> Iterator[Reason]:
    if figures.clocks:
        worst = max(figures.clocks, key=lambda clock: clock.off_seconds)
        others = f", and {some(len(figures.clocks) - 1, 'other')} too" if len(figures.clocks) > 1 else ""
        text = f"the clock of `{worst.name}` is off by {lasting(worst.off_seconds)} or more{others}"
        yield Reason(Level.AMBER, text, Page.INSTALLATION, Playbook.CLOCKS)


def workers_share_a_name(figures: Figures) -> Iterator[Reason]:
    if figures.shared_names:
        text = f"several workers are named {_names(figures.shared_names)}: give each its own with `-n`"
        yield Reason(Level.AMBER, text, Page.WORKERS, Playbook.DEPLOY)


def partitions_are_missing(figures: Figures) -> Iterator[Reason]:
    short = {table: seconds for table, seconds in figures.partitions.items() if seconds < DAY_SECONDS}
    if short:
        table = min(short, key=lambda name: short[name])
        ahead = lasting(short[table]) if short[table] else "no time at all"
        text = f"`{table}` has partitions for {ahead} ahead: no beat makes them, or may not"
        yield Reason(Level.AMBER, text, Page.INSTALLATION, Playbook.POSTGRES)


def events_are_late(figures: Figures) -> Iterator[Reason]:
    if figures.feed_lag_seconds > FEED_LATE_SECONDS:
        text = f"events are read {lasting(figures.feed_lag_seconds)} late, and notices with them"
        yield Reason(Level.AMBER, text, Page.INSTALLATION, Playbook.POSTGRES)


def retention_is_behind(figures: Figures) -> Iterator[Reason]:
    if figures.past_retention:
        text = "triggers are kept for longer than `CARILLON_HISTORY_DAYS`: the leader's purge fails or lags"
        yield Reason(Level.AMBER, text, Page.INSTALLATION, Playbook.POSTGRES)


def connections_run_out(figures: Figures) -> Iterator[Reason]:
    used, most = figures.connections
    if most and used > CROWDED_CONNECTIONS * most:
        text = f"{used:,} of Postgres' {most:,} connections are in use"
        yield Reason(Level.AMBER, text, Page.INSTALLATION, Playbook.POSTGRES)


def _names(names: tuple[str, ...] | list[str], most: int = 3) -> str:
    if not all(names):
        return "a worker" if len(names) == 1 else f"{len(names):,} workers"
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


RULES = (
    nobody_leads,
    broker_is_away,
    no_worker_is_there,
    jobs_wait_for_triggers,
    dispatch_is_stopped,
    leader_falls_silent,
    rates_are_counted_alone,
    a_worker_falls_silent,
    clocks_are_off,
    workers_share_a_name,
    partitions_are_missing,
    events_are_late,
    retention_is_behind,
    connections_run_out,
)
