"""Circuit breakers: workers count how calls of targets went, and dispatch chooses the call that probes (DESIGN §8).

Only for tenants that want them. A worker that writes its counts waits for no lock longer than ``LOCK_PATIENCE``. It
keeps counts that it could not write for the next time; a process that dies loses them. ``jobs.core.levers.breaker``
decides every transition.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from jobs.conf import engine_settings
from jobs.core.levers import breaker as rules
from jobs.core.levers.breaker import Admits, Breaker, BreakerState, Pair, Tally
from jobs.store import db
from jobs.telemetry import get_logger
from jobs.wakeups import wake_beats

log = get_logger()
_SQL = db.queries("breakers")
#: The most rows of one tenant. Its calls to further targets go on without a breaker: it invents hosts.
MAX_OF_TENANT = 1000
#: The most pairs for which a process keeps counts that it could not write.
MAX_KEPT = 1000
#: A breaker that is not closed and that no trigger waits for is forgotten after this long.
IDLE = timedelta(hours=6)
_kept: dict[Pair, Tally] = {}
_keeping = threading.Lock()


def note(outcomes: Iterable[tuple[Pair, UUID, bool]]) -> None:
    """Count how calls went: for each the tenant and target, the trigger, and whether the target answered.

    Opens a transaction if a call failed, or one of the pairs has a breaker. Never waits longer than ``LOCK_PATIENCE``
    for a lock.
    """
    with _keeping:
        tallies = dict(_kept)
        _kept.clear()
    for pair, trigger_id, reached in outcomes:
        tallies.setdefault(pair, Tally()).add(trigger_id, reached)
    try:
        _write(tallies)
    except db.StatementFailed as error:
        with _keeping:
            _kept.update(list(tallies.items())[:MAX_KEPT])
        log.debug("breakers not written", error=str(error).strip(), pairs=len(tallies))


def _write(tallies: Mapping[Pair, Tally]) -> None:
    failed = [pair for pair, tally in tallies.items() if tally.failures]
    if not failed and not _SQL["find"](**_columns(tallies)):
        return
    with db.atomic():
        [(before_it,)] = _SQL["patience"]()
        _SQL["bound"](patience=f"{db.LOCK_PATIENCE.total_seconds() * 1000:.0f}ms")
        if failed:
            _SQL["open"](**_columns(failed), most=MAX_OF_TENANT)
        rows = _SQL["lock"](**_columns(tallies))
        policy = engine_settings().breaker_policy
        changed = []
        for row in rows:
            before = breaker_of(row)
            later = rules.after(before, tallies[row.tenant_id, row.target], now=row.now, policy=policy)
            if later != before:
                changed.append((row, later))
        if changed:
            _SQL["write"](**_states(changed))
        _SQL["bound"](patience=before_it)  # of the caller's transaction, if this is within one
    _tell(changed)


def _tell(changed: Sequence[tuple[Any, Breaker]]) -> None:
    for row, later in changed:
        if row.state != later.state:
            log.info(
                "breaker", tenant_id=row.tenant_id, target=row.target, was=row.state, now=later.state.value
            )
    if any(later.state is BreakerState.CLOSED != row.state for row, later in changed):
        wake_beats()


def _states(changed: Sequence[tuple[Any, Breaker]]) -> dict[str, list[Any]]:
    return {
        "ids": [row.id for row, _ in changed],
        "states": [later.state.value for _, later in changed],
        "failures": [later.failures for _, later in changed],
        "successes": [later.successes for _, later in changed],
        "window_ends_ats": [later.window_ends_at for _, later in changed],
        "openings": [later.openings for _, later in changed],
        "probe_ats": [later.probe_at for _, later in changed],
    }


def breaker_of(row: Any) -> Breaker:
    """The breaker in a row of ``breakers.sql``."""
    return Breaker(
        state=BreakerState(row.state),
        failures=row.failures,
        successes=row.successes,
        window_ends_at=row.window_ends_at,
        openings=row.openings,
        probe_at=row.probe_at,
        probe_id=row.probe_id,
    )


def admits(row: Any) -> Admits:
    """Which triggers the breaker of a row of ``find`` lets through."""
    return rules.admits(breaker_of(row), now=row.now, probe_in_flight=row.probe_in_flight)


def find(pairs: Iterable[Pair]) -> list[Any]:
    """The breakers of these pairs, where there are any."""
    columns = _columns(pairs)
    return _SQL["find"](**columns) if columns["targets"] else []


def hold_back(wanted: Mapping[Pair, Sequence[UUID]]) -> set[UUID]:
    """The triggers that the breakers of their pairs do not let through. If a breaker lets one probe, the first trigger
    of its pair goes.

    Call in the transaction of dispatch, under the locks of the tenants.
    """
    held: set[UUID] = set()
    probes: dict[int, tuple[Any, UUID]] = {}
    for row in find(wanted):
        ids, admitted = wanted[row.tenant_id, row.target], admits(row)
        if admitted is Admits.ALL:
            continue
        held |= set(ids)
        if admitted is Admits.PROBE:
            probes[row.id] = row, ids[0]
    if probes:
        held -= _hand_out(probes.values())
    return held


def _hand_out(probes: Iterable[tuple[Any, UUID]]) -> set[UUID]:
    """The triggers that must probe. A trigger does not if another process has changed its breaker's row or holds it."""
    found = [(row, rules.probing(breaker_of(row), trigger_id, now=row.now)) for row, trigger_id in probes]
    done = _SQL["probe"](
        ids=[row.id for row, _ in found],
        states=[row.state for row, _ in found],
        probe_ids=[row.probe_id for row, _ in found],
        trigger_ids=[later.probe_id for _, later in found],
        untils=[later.probe_at for _, later in found],
    )
    return {row.probe_id for row in done}


def purge(*, limit: int) -> int:
    """Forget breakers that hold nothing of use any more. May be repeated."""
    return len(_SQL["purge"](idle=IDLE, limit=limit))


def _columns(pairs: Iterable[Pair]) -> dict[str, list[Any]]:
    ordered = sorted(pairs)
    return {"tenant_ids": [pair[0] for pair in ordered], "targets": [pair[1] for pair in ordered]}
