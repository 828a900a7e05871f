"""The judgement over figures: each rule both ways, and the worst reason first."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.core.judgement import (
    ClockFigures,
    Figures,
    LeaderFigures,
    Level,
    OpenBreaker,
    Stopped,
    TenantFigures,
    TypeFigures,
    WorkerFigures,
    judge,
)
from jobs.core.judgement.reason import Playbook

PLAYBOOKS = Path(__file__).parents[2] / "docs" / "playbooks"

LEADER = LeaderFigures(holder="beat-1", seconds_left=9, lease_seconds=10)
STOPPED = Stopped(by="root", reason="Incident 42.", seconds=75)
#: Nothing is wrong.
WELL = Figures(
    leader=LEADER,
    workers=(WorkerFigures(name="w1", takes=frozenset({"webhook", "noop"}), slots=4, running=1),),
    types={"webhook": TypeFigures(name="webhook", queued=3, queued_seconds=0.4, running=1, window=16)},
    tenants=(TenantFigures(id=7, slug="acme", in_flight=4, cap=10),),
    partitions={"jobs_attempt": 30 * 86_400},
    connections=(20, 100),
)


def webhook(**columns: Any) -> dict[str, Any]:
    return {"types": {"webhook": replace(WELL.types["webhook"], **columns)}}


def worker(**columns: Any) -> dict[str, Any]:
    return {"workers": (replace(WELL.workers[0], **columns),)}


def leader(**columns: Any) -> dict[str, Any]:
    return {"leader": replace(LEADER, **columns)}


def tenant(**columns: Any) -> dict[str, Any]:
    return {"tenants": (replace(WELL.tenants[0], **columns),)}


def texts(figures: Figures) -> list[str]:
    return [reason.text for reason in judge(figures).reasons]


#: A change for the worse, its level, and the words about it.
WRONG: list[tuple[dict[str, Any], Level, str]] = [
    ({"leader": None}, Level.RED, "no beat has ever led, so nothing is dispatched; start one"),
    (
        leader(seconds_left=-42),
        Level.RED,
        "no beat leads for 42 s, so nothing is dispatched; `beat-1` was the last",
    ),
    (
        leader(seconds_left=4),
        Level.AMBER,
        "`beat-1` leads and has not renewed its lease for 6 s, so it may hang; another takes over in 4 s if there is "
        "one",
    ),
    ({"broker": False}, Level.RED, "the broker does not answer, so nothing is dispatched until it does"),
    (
        {"broker": False, "brokerless": True},
        Level.AMBER,
        "the broker does not answer, so messages go through Postgres until it does",
    ),
    ({"workers": (), "types": {}}, Level.RED, "no worker is there, so nothing starts"),
    (
        {"materialization_lag_seconds": 6},
        Level.RED,
        "a job waits for its next trigger for 6 s: the leader's step materialize fails or lags",
    ),
    ({"stopped": STOPPED}, Level.RED, "dispatch is stopped for 1 min 15 s by `root`: Incident 42"),
    (
        {"rates": False},
        Level.AMBER,
        "Redis, which counts rates for all, does not answer: each process counts by itself",
    ),
    (
        {"bypassed": ("beat@a:1",)},
        Level.AMBER,
        "`beat@a:1` let firings pass that no rate limit could be asked for, within ten minutes",
    ),
    (
        worker(silent_seconds=17),
        Level.AMBER,
        "`w1` has not been heard of for 17 s: killed, frozen or cut off",
    ),
    (
        {"clocks": (ClockFigures(name="w1", off_seconds=2), ClockFigures(name="w2", off_seconds=300))},
        Level.AMBER,
        "the clock of `w2` is off by 5 min or more, and 1 other too",
    ),
    (
        {"shared_names": ("celery@host",)},
        Level.AMBER,
        "several workers are named `celery@host`: give each its own with `-n`",
    ),
    (
        {"partitions": {"jobs_attempt": 3600.0}},
        Level.AMBER,
        "`jobs_attempt` has partitions for 1 h ahead: no beat makes them, or may not",
    ),
    ({"feed_lag_seconds": 180}, Level.AMBER, "events are read 3 min late, and notices with them"),
    (
        {"past_retention": 1},
        Level.AMBER,
        "triggers are kept for longer than `CARILLON_HISTORY_DAYS`: the leader's purge fails or lags",
    ),
    ({"connections": (81, 100)}, Level.AMBER, "81 of Postgres' 100 connections are in use"),
    (
        worker(takes=frozenset({"noop"})) | webhook(queued=37, queued_seconds=41),
        Level.RED,
        "no worker serves `webhook`: 37 queued, the oldest for 41 s",
    ),
    (
        worker(takes=frozenset({"noop"})) | webhook(queued=0, due_seconds=41),
        Level.RED,
        "no worker serves `webhook`: the oldest has been due for 41 s",
    ),
    (
        webhook(queued=37, queued_seconds=8),
        Level.RED,
        "`w1` starts nothing of `webhook` though 3 of 4 slots are free: 37 queued, the oldest for 8 s",
    ),
    (
        worker(running=4) | webhook(queued=37, queued_seconds=11),
        Level.AMBER,
        "all 4 slots of `webhook` are taken, so it needs more workers or theirs hang: 37 queued, the oldest for 11 s",
    ),
    (
        webhook(late_seconds=12),
        Level.RED,
        "dispatch does not turn: `webhook` has been due for 12 s with room for it",
    ),
    (
        webhook(late_seconds=12, turns=True),
        Level.AMBER,
        "dispatch is slow: `webhook` has been due for 12 s with room for it",
    ),
    (
        webhook(queued=16, due_seconds=48),
        Level.AMBER,
        "`webhook` is late: the oldest has been due for 48 s, its workers are too slow for it, 16 are queued",
    ),
    (
        webhook(running=4, queued=1, cap=5, due_seconds=48),
        Level.AMBER,
        "`webhook` is late: the oldest has been due for 48 s, its cap of 5 in flight is full",
    ),
    (
        tenant(in_flight=10, due=186, due_seconds=48),
        Level.AMBER,
        "tenant `acme` waits for its own limit, its cap of 10 in flight is full: 186 due, the oldest for 48 s",
    ),
    (
        tenant(in_flight=3, overflows=True, due=186, due_seconds=3),
        Level.AMBER,
        "tenant `acme` waits for its own limit, its cap of 10 in flight is full: 186 due, the oldest for 3 s",
    ),
    (
        tenant(is_rated=True, due_seconds=48),
        Level.AMBER,
        "tenant `acme` waits for its own limit, its rate lets no more through: the oldest for 48 s",
    ),
    (webhook(expired=2), Level.AMBER, "2 running triggers of `webhook` lost their worker"),
    (
        {"missed": {"webhook": 1_666}},
        Level.AMBER,
        "1,666 firings were skipped in the last hour, as they could not be dispatched in time",
    ),
    (
        {"lost": {"webhook": 1}},
        Level.AMBER,
        "1 attempt was lost in the last hour with a worker that died or was cut off",
    ),
    (webhook(paused=STOPPED), Level.AMBER, "`webhook` is paused for 1 min 15 s by `root`: Incident 42"),
    ({"paused_targets": 1}, Level.AMBER, "operators paused targets by 1 rule"),
    ({"open_breakers": 2}, Level.AMBER, "2 circuit breakers are open: calls of their targets fail"),
    (
        {"open_breakers": 1, "open_targets": (OpenBreaker(target="api.example.com", tenant="acme"),)},
        Level.AMBER,
        "calls of `api.example.com` by tenant `acme` fail, so its circuit breaker is open",
    ),
    (
        {"open_breakers": 3, "open_targets": (OpenBreaker(target="api.example.com", tenant="acme"),)},
        Level.AMBER,
        "calls of `api.example.com` by tenant `acme` fail, so its circuit breaker is open, and so are 2 more",
    ),
]
#: Changes that look like trouble and are none.
RIGHT: list[dict[str, Any]] = [
    {"leader": None, "election": False},
    leader(seconds_left=6),
    {"materialization_lag_seconds": 4},
    worker(silent_seconds=11),
    webhook(queued=300, queued_seconds=3),
    worker(running=4) | webhook(queued=37, queued_seconds=8),
    # Operators hold it back: that is told, and nothing else.
    webhook(due_seconds=48),
    tenant(in_flight=10, due=99, due_seconds=3),
    tenant(in_flight=9, due=186, due_seconds=3),
    tenant(in_flight=10, due_seconds=48, is_active=False),
    webhook(late_seconds=8),
    {"connections": (79, 100)},
    {"feed_lag_seconds": 100},
]


class TestJudgement:
    def test_is_green_where_nothing_is_wrong(self) -> None:
        verdict = judge(WELL)
        assert (verdict.level, verdict.reasons) == (Level.GREEN, ())
        assert verdict.sentence == "All is well: `beat-1` leads, 1 worker serves 2 queues, nothing is late."

    @pytest.mark.parametrize(("change", "level", "text"), WRONG, ids=[text[:50] for _, _, text in WRONG])
    def test_says_what_is_wrong_and_nothing_else(
        self, change: dict[str, Any], level: Level, text: str
    ) -> None:
        verdict = judge(replace(WELL, **change))
        assert [(reason.level, reason.text) for reason in verdict.reasons] == [(level, text)]
        opening = {Level.RED: "Not well", Level.AMBER: "Needs a look"}[level]
        assert verdict.sentence == f"{opening}: {text}."

    @pytest.mark.parametrize("change", RIGHT)
    def test_says_nothing_of_what_is_no_trouble(self, change: dict[str, Any]) -> None:
        assert texts(replace(WELL, **change)) == []

    @pytest.mark.parametrize("held", [{"stopped": STOPPED}, webhook(paused=STOPPED)])
    def test_does_not_blame_workers_for_what_operators_hold_back(self, held: dict[str, Any]) -> None:
        waiting = webhook(queued=37, queued_seconds=41, due_seconds=60, late_seconds=60)["types"]["webhook"]
        one = replace(waiting, paused=held["types"]["webhook"].paused if "types" in held else None)
        found = texts(replace(WELL, **(held | {"types": {"webhook": one}})))
        assert [text.rpartition(": ")[2] for text in found] == ["Incident 42"]

    def test_names_the_cause_before_what_follows_of_it(self) -> None:
        found = judge(
            replace(WELL, broker=False, missed={"webhook": 5}, **webhook(queued=37, queued_seconds=41))
        )
        assert found.sentence.startswith("Not well: the broker does not answer")
        assert [reason.level for reason in found.reasons] == [Level.RED, Level.RED, Level.AMBER]

    def test_names_what_is_wrong_now_before_what_went_wrong_within_the_hour(self) -> None:
        found = judge(replace(WELL, missed={"webhook": 5}, lost={"webhook": 1}, open_breakers=1))
        assert found.sentence.startswith("Needs a look: 1 circuit breaker is open")

    def test_counts_the_slots_of_all_workers_of_a_queue(self) -> None:
        full, free = (replace(WELL.workers[0], running=running) for running in (4, 1))
        late = webhook(queued=37, queued_seconds=8)
        assert "its 2 workers start nothing of `webhook` though 3 of 8 slots are free" in texts(
            replace(WELL, workers=(full, free), **late)
        )[0]  # fmt: skip
        assert texts(replace(WELL, workers=(full, full), **late)) == []

    def test_names_nobody_to_whom_names_are_not_shown(self) -> None:
        hidden = replace(WELL, **leader(holder="", seconds_left=-2), **worker(name="", silent_seconds=20))
        assert texts(hidden) == [
            "no beat leads for 2 s, so nothing is dispatched",
            "a worker has not been heard of for 20 s: killed, frozen or cut off",
        ]


def test_every_playbook_is_there() -> None:
    def missing(names: Iterable[str]) -> list[str]:
        return [name for name in names if not (PLAYBOOKS / f"{name}.md").exists()]

    assert missing(playbook.value for playbook in Playbook) == []
