"""Targets: rules for the hosts that handlers call, and triggers that wait until their target lets them go (DESIGN §8).

A dispatcher keeps the rules in memory and reads them again when their version differs. Triggers that a pause, a circuit
breaker or a cap holds back leave its sight (``Gates``), at no attempt's cost. A step beside dispatch shows them again
when there is room (``Releasing``). Another shows triggers that waited for a rate when the rules have changed
(``Following``). If both fail, triggers come back by themselves after ``PATIENCE``, and are decided again.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from jobs.conf import engine_settings
from jobs.core.instants import EARLIEST
from jobs.core.levers.breaker import Admits, Pair
from jobs.core.levers.targets import Rule, Rules
from jobs.store import db
from jobs.store.dispatch import breakers, parking

_SQL = db.queries("targets")
#: Varied from half as long to half as long again, so that triggers held back together do not come back together.
PATIENCE = timedelta(hours=1)
#: The most triggers that are shown at once; the tenants and targets that are looked at share them.
SHOW = 1000
#: The most triggers shown at once when one of them must probe: some may be runs with a payload of their own.
MAY_PROBE = 8
_rng = random.Random()  # noqa: S311
Place = tuple[str, int]
START: Place = ("", 0)


class Admission(Protocol):
    """The rates of targets, as ``jobs.limits.Rates`` knows them."""

    def admit(
        self, wanted: Mapping[str, tuple[int, float]]
    ) -> Mapping[str, tuple[int, Sequence[timedelta]]]: ...


def rules(*, version: int = 0) -> Rules:
    """The rules as they are: operators', and those of the settings."""
    return Rules([*engine_settings().target_rules, *(rule_of(row) for row in rows())], version=version)


def rows() -> list[Any]:
    """Operators' rules, as rows of ``targets.sql: rules``."""
    return _SQL["rules"]()


def rule_of(row: Any) -> Rule:
    return Rule(
        row.pattern,
        row.rate_per_second,
        row.max_in_flight,
        paused=row.paused_at is not None,
        reason=row.pause_reason,
        since=row.paused_at,
    )


class Gates:
    """Decides which triggers one turn may send to which target. In its transaction, under the locks of the tenants.

    ``is_guarded``: whether a tenant has circuit breakers.
    """

    def __init__(self, *, rules: Rules, rates: Admission, is_guarded: Callable[[int], bool]) -> None:
        self._rules, self._rates, self._is_guarded = rules, rates, is_guarded

    def hold_back(
        self, wanted: Sequence[tuple[UUID, Pair]], own_payload: Set[UUID] = frozenset()
    ) -> set[UUID]:
        """Park the triggers, each given with its tenant and target, that may not go now. Returns them.

        Those that come first go first: in this order places were allotted to tenants. A trigger of ``own_payload``,
        whose payload only this run has, probes only where no other can.
        """
        limits = {pair[1]: self._rules.of(pair[1]) for _, pair in wanted}
        stopped = {trigger_id for trigger_id, (_, target) in wanted if limits[target].paused_by is not None}
        calling = [one for one in wanted if one[0] not in stopped]
        stopped |= self._stopped_by_breakers(sorted(calling, key=lambda one: one[0] in own_payload))
        held: dict[UUID, str] = {}
        left: defaultdict[str, list[UUID]] = defaultdict(list)
        for trigger_id, (_, target) in wanted:
            if trigger_id in stopped:
                held[trigger_id] = target
            else:
                left[target].append(trigger_id)
        caps = {target: cap for target in left if (cap := limits[target].max_in_flight) is not None}
        for target, room in self._rooms(caps).items():
            held |= dict.fromkeys(left[target][room:], target)
            left[target] = left[target][:room]
        park_for(held)
        return held.keys() | self._wait_for_turns(
            {target: (ids, rate) for target, ids in left.items() if (rate := limits[target].rate_per_second)}
        )

    def _stopped_by_breakers(self, wanted: Iterable[tuple[UUID, Pair]]) -> set[UUID]:
        by_pair: defaultdict[Pair, list[UUID]] = defaultdict(list)
        for trigger_id, pair in wanted:
            if self._is_guarded(pair[0]):
                by_pair[pair].append(trigger_id)
        return breakers.hold_back(by_pair) if by_pair else set()

    def _rooms(self, caps: Mapping[str, int]) -> dict[str, int]:
        """How many more may go to each target that has a cap; none while another dispatcher serves it."""
        if not caps:
            return {}
        ours = [row.target for row in _SQL["lock_targets"](targets=sorted(caps))]
        return dict.fromkeys(caps, 0) | rooms_of({target: caps[target] for target in ours})

    def _wait_for_turns(self, rated: Mapping[str, tuple[Sequence[UUID], float]]) -> set[UUID]:
        waits: dict[UUID, timedelta] = {}
        admissions = (
            self._rates.admit({target: (len(ids), rate) for target, (ids, rate) in rated.items()})
            if rated
            else {}
        )
        for target, (granted, turns) in admissions.items():
            waits |= zip(rated[target][0][granted:], turns, strict=True)
        parking.park_until(waits)
        return set(waits)


def rooms_of(caps: Mapping[str, int]) -> dict[str, int]:
    """How many more triggers may be in flight to each target."""
    if not caps:
        return {}
    in_flight = {row.target: row.in_flight for row in _SQL["in_flight"](targets=list(caps))}
    return {target: max(0, cap - in_flight.get(target, 0)) for target, cap in caps.items()}


def park_for(held: Mapping[UUID, str]) -> None:
    """Take triggers out of sight, each until its target lets it go."""
    if held:
        waits = [PATIENCE * _rng.uniform(0.5, 1.5) for _ in held]
        _SQL["park_for"](ids=list(held), targets=list(held.values()), waits=waits)


class Releasing:
    """Shows dispatch again triggers whose target has room now: round after round, by target and tenant.

    Belongs to one beat. Dispatch parks shown triggers again if it finds no room for them.
    """

    def __init__(self) -> None:
        self._after = START

    def step(
        self, *, rules: Rules, limit: int, longest: timedelta = timedelta(seconds=0.2)
    ) -> tuple[int, bool]:
        """Look at ``limit`` pairs of target and tenant at a time, until some triggers are shown, the round is over, or
        ``longest`` has passed. Returns how many triggers are shown, and whether some wait for a place. May be repeated.
        """
        until = time.monotonic() + longest.total_seconds()
        waits = False
        while True:
            shown, more = self._slice(rules, limit)
            waits |= more
            if shown or self._after == START or time.monotonic() > until:
                return shown, waits or self._after != START

    def _slice(self, rules: Rules, limit: int) -> tuple[int, bool]:
        pairs = _SQL["waiting"](target=self._after[0], tenant_id=self._after[1], limit=limit)
        # Set before anything can fail: a slice that always fails must not keep the others waiting.
        self._after = (pairs[-1].target, pairs[-1].tenant_id) if len(pairs) == limit else START
        limits = {row.target: rules.of(row.target) for row in pairs}
        open_to = {target for target, rule in limits.items() if rule.paused_by is None}
        caps = {target: cap for target in open_to if (cap := limits[target].max_in_flight) is not None}
        waiting = [row for row in pairs if row.target in open_to]
        through = _through_breakers([row for row in waiting if row.guarded])
        wanted = [pair for row in waiting if through.get(pair := (row.tenant_id, row.target), SHOW)]
        rooms = _shared(wanted, rooms_of(caps))
        found = [
            (target, tenant_id, min(room, through.get((tenant_id, target), SHOW)))
            for (tenant_id, target), room in rooms.items()
        ]
        # One statement's worth.
        share = max(1, SHOW // max(1, len(found)))
        found = [(target, tenant_id, min(room, share)) for target, tenant_id, room in found]
        shown = _SQL["show"](**_columns(found)) if found else []
        return len(shown), bool(caps) or len(shown) >= share


def _shared(pairs: Sequence[Pair], rooms: Mapping[str, int]) -> dict[Pair, int]:
    """How many triggers of each pair may be shown, where ``rooms`` says how many may go to a target with a cap.

    Where tenants outnumber the places chance decides, so that each has its turn however many triggers of others wait.
    """
    waiting: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        waiting[pair[1]].append(pair)
    shared: dict[Pair, int] = {}
    for target, of_target in waiting.items():
        room = rooms.get(target, SHOW * len(of_target))
        if served := _rng.sample(of_target, min(room, len(of_target))):
            shared |= dict.fromkeys(served, math.ceil(room / len(served)))
    return shared


def _through_breakers(guarded: Sequence[Any]) -> dict[Pair, int]:
    """How many waiting triggers may be shown, for pairs that have a breaker; all, if it is closed."""
    rooms = {Admits.NONE: 0, Admits.PROBE: MAY_PROBE, Admits.ALL: SHOW}
    rows = breakers.find((row.tenant_id, row.target) for row in guarded)
    return {(row.tenant_id, row.target): rooms[breakers.admits(row)] for row in rows}


def _columns(found: Iterable[tuple[str, int, int]]) -> dict[str, list[Any]]:
    targets, tenant_ids, rooms = map(list, zip(*found, strict=True))
    return {"targets": targets, "tenant_ids": tenant_ids, "rooms": rooms}


class Following:
    """After a change of rules: shows dispatch again triggers that wait for a rate of a target that the change touches.

    Belongs to one beat; ``step`` goes on slice by slice, so that it keeps no other step waiting. The next process does
    the work that a killed one leaves undone.
    """

    def __init__(self) -> None:
        self._followed = -1
        self._walk: _Walk | None = None

    def step(
        self, *, version: int, limit: int, forget: Callable[[Callable[[str], bool]], None]
    ) -> tuple[int, bool]:
        """Look at ``limit`` triggers. Returns how many are shown, and whether there are more to look at.

        ``version``: of the rules that dispatch goes by. ``forget`` is given a test of targets; the turns of targets
        that pass it are then given out again.
        """
        if version == self._followed:
            return 0, False
        if self._walk is None or self._walk.version != version:
            self._walk = self._begin(version, forget)
            if self._walk is None:
                return 0, False
        shown, over = self._walk.slice(limit)
        if over:
            _SQL["forget_changes"](version=version)
            self._followed, self._walk = version, None
        return shown, not over

    def _begin(self, version: int, forget: Callable[[Callable[[str], bool]], None]) -> "_Walk | None":
        changes = _SQL["changes"]()
        if not changes or not changes[0].patterns:
            self._followed = version
            return None
        if changes[0].version != version:
            return None  # they have changed once more, and dispatch has yet to learn of it
        walk = _Walk(version, changes[0].now, Rules(Rule(each, paused=True) for each in changes[0].patterns))
        forget(walk.touched.pauses)
        return walk


class _Walk:
    """Walks over all triggers that wait for a time, soonest first; ``touched`` "pauses" targets with changed rules."""

    def __init__(self, version: int, began_at: datetime, touched: Rules) -> None:
        self.version, self.touched = version, touched
        self._began_at = began_at
        self._after, self._after_id = EARLIEST, UUID(int=0)

    def slice(self, limit: int) -> tuple[int, bool]:
        """Returns how many are shown, and whether that was the end."""
        looked_at = _SQL["rated"](after=self._after, after_id=self._after_id, limit=limit)
        # A trigger shown since the walk began waits under the new rules: met again, it would be sent ahead for ever.
        ids = [
            row.id
            for row in looked_at
            if (row.announced_at is None or row.announced_at < self._began_at)
            and self.touched.pauses(row.target)
        ]
        shown = len(_SQL["hurry"](ids=ids)) if ids else 0
        if looked_at:
            self._after, self._after_id = looked_at[-1].parked_until, looked_at[-1].id
        return shown, len(looked_at) < limit


def put_rule(rule: Rule, *, regex: str, by: str) -> None:
    """Write an operator's rule. In the caller's transaction, after ``lock_rules``."""
    _SQL["put"](
        pattern=rule.pattern,
        regex=regex,
        rate_per_second=rule.rate_per_second,
        max_in_flight=rule.max_in_flight,
        paused=rule.paused,
        by=by,
        reason=rule.reason,
    )
    _SQL["note_change"](pattern=rule.pattern)


def remove_rule(pattern: str) -> None:
    """Take an operator's rule away. In the caller's transaction, after ``lock_rules``."""
    _SQL["remove"](pattern=pattern)
    _SQL["note_change"](pattern=pattern)


def lock_rules() -> None:
    """Until the end of the caller's transaction no other transaction changes rules."""
    db.queries("levers")["know_installation"]()
    _SQL["lock_rules"]()
