"""How benches judge a leader's work: its rate, its failures, the shares and waits of tenants."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import shares
from benchmarks.carillon.leader import Record, Turn, cpu_rate, failed, rate
from benchmarks.shares import Tenant
from benchmarks.stage import BenchError


def _turn(*, seconds: float = 1.0, working: float = 0.0, dispatched: int = 0, led: bool = True) -> Turn:
    return Turn(10.0, 10.0 + seconds, working, dispatched, led)


class TestARate:
    def test_counts_neither_the_workers_time_nor_the_leaders_sleep(self) -> None:
        assert rate([_turn(seconds=2.0, working=1.5, dispatched=100), _turn(seconds=0.5)]) == 100.0

    def test_counts_the_time_of_turns_that_failed(self) -> None:
        assert rate([_turn(dispatched=100), _turn(seconds=4.0, led=False)]) == 20.0


class TestACpuRate:
    def test_counts_the_processors_seconds_alone(self) -> None:
        turns = [Turn(0.0, 60.0, 0.0, 100, True, cpu=0.25), Turn(60.0, 61.0, 0.0, 0, False, cpu=0.25)]
        assert cpu_rate(turns) == 200.0


class TestFailedTurns:
    def test_are_those_that_did_not_come_to_their_end(self) -> None:
        assert failed([_turn(led=False), _turn(), _turn(led=False), _turn()]) == 2


class TestARecord:
    def _record(self, tmp_path: Path, text: str) -> Record:
        log = tmp_path / "leader.log"
        log.write_text(text)
        leader: Any = SimpleNamespace(log=log)
        return Record(leader)

    def test_is_the_last_line_that_the_leader_printed(self, tmp_path: Path) -> None:
        turns = self._record(tmp_path, f"lead\n{json.dumps([[1.0, 1.5, 0.25, 7, True]])}\n").turns()
        assert [(turn.ms, turn.dispatched, turn.led) for turn in turns] == [(250.0, 7, True)]

    def test_of_a_leader_that_was_killed_is_an_error_with_what_it_said(self, tmp_path: Path) -> None:
        with pytest.raises(BenchError, match="lost its way"):
            self._record(tmp_path, "lead\nlost its way\n").turns()


def _served(*weights: int, per_weight: int = 40) -> list[Tenant]:
    """Tenants of these weights, each served when its turn comes: one of weight 2 twice as often."""
    order = sorted(
        ((n + 0.5) / weight, owner)
        for owner, weight in enumerate(weights)
        for n in range(per_weight * weight)
    )
    tenants = [Tenant(weight, True, []) for weight in weights]
    for place, (_, owner) in enumerate(order):
        tenants[owner].places.append(place)
    return tenants


class TestShares:
    def test_by_weight_are_off_by_nothing(self) -> None:
        found = shares.judge(_served(*shares.WEIGHTS), 1000.0).more
        assert (found["weights_off_by"], found["tenants_off_by"], found["tenants_without"]) == (0, 0, 0)
        # Turns of several weights coincide, and then many start between two of one tenant.
        assert 1 <= found["longest_wait_in_turns"] < 1.5

    def test_tell_of_a_tenant_that_got_half_of_its_due(self) -> None:
        tenants = _served(*[8] * 50)
        tenants[0] = Tenant(8, True, tenants[0].places[::2])
        found = shares.judge(tenants, 1000.0).more
        assert found["tenants_off_by"] == pytest.approx(0.5, abs=0.02)
        assert found["longest_wait_in_turns"] == pytest.approx(2, abs=0.1)

    def test_tell_of_a_tenant_that_got_nothing(self) -> None:
        found = shares.judge([*_served(*shares.WEIGHTS), Tenant(1, True, [])], 1000.0).more
        assert found["tenants_without"] == 1
        assert found["longest_wait_in_turns"] == pytest.approx(39, abs=1)
