"""How much an installation needs for a load: arithmetic over measured costs."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from jobs.core.errors import InvalidInput
from jobs.core.sizing import BOUNDS, COSTS, Load, Sizing, size

ROOT = Path(__file__).parents[2]
PLAIN: dict[str, Any] = {"firings_per_second": 100, "runtime_seconds": 0.2, "retention_days": 90}


def sized(**changes: Any) -> Sizing:
    return size(Load(**PLAIN | changes))


def value(need: str, **changes: Any) -> float:
    return sized(**changes).needs[need].value


class TestWorkers:
    def test_have_slots_for_what_is_in_flight_and_for_peaks(self) -> None:
        assert value("in_flight") == pytest.approx(20)
        assert value("worker_slots") == math.ceil((20 + 100 / COSTS["slot_rate"].value) / 0.7) == 29
        assert value("workers") == 4

    def test_are_two_at_least(self) -> None:
        assert (
            value("worker_slots", firings_per_second=0.01) == value("workers", firings_per_second=0.01) == 2
        )

    def test_need_slots_by_their_pace_too(self) -> None:
        assert value("worker_slots", firings_per_second=8000, runtime_seconds=0) == 3

    def test_have_many_webhooks_in_flight_in_a_slot(self) -> None:
        slow = {"webhooks": True, "firings_per_second": 1000, "runtime_seconds": 2}
        assert value("worker_slots", **slow) == math.ceil(2000 / 200 / 0.7)
        fast = {"webhooks": True, "firings_per_second": 3282, "runtime_seconds": 0.01}
        assert value("worker_slots", **fast) == math.ceil(2 / 0.7)

    def test_run_each_attempt_of_a_firing(self) -> None:
        assert value("in_flight", attempts=1.5) == pytest.approx(30)


class TestServers:
    def test_hold_the_connections_of_every_process(self) -> None:
        assert value("connections") == 29 * 3 + 4 + 2 * 4 + 4 * 17 + 10

    def test_hold_connections_to_a_replica_and_one_more_of_each_web_process(self) -> None:
        assert value("connections", replica=True) - value("connections") == 4
        assert value("connections_to_the_replica", replica=True) == 4 * 17 + 10
        assert "connections_to_the_replica" not in sized().needs

    def test_keep_every_firing_of_retention(self) -> None:
        firing = value("bytes_of_a_firing")
        assert firing == COSTS["trigger_bytes"].value + COSTS["attempt_bytes"].value > 500
        kept = 100 * 86_400 * 90
        assert value("firings_kept") == kept
        assert value("disk") == pytest.approx((kept * firing + 2 * 2**30) / 0.7 / 2**30, abs=0.1)

    def test_keep_what_attempts_leave_and_events(self) -> None:
        more = value("bytes_of_a_firing", attempts=2, kept_bytes=300, all_events=True)
        costs = {name: COSTS[f"{name}_bytes"].value for name in ("trigger", "attempt", "event")}
        assert more == costs["trigger"] + 2 * (costs["attempt"] + 300) + costs["event"]

    @pytest.mark.parametrize(
        ("rate", "said"),
        [(4000, "no more than half"), (6000, "start later"), (9000, "exceeds the capacity of one Postgres")],
    )
    def test_are_one_postgres_as_far_as_it_carries(self, rate: float, said: str) -> None:
        assert value("share_of_one_postgres", firings_per_second=rate) == pytest.approx(
            rate / 8942, abs=0.001
        )
        assert said in sized(firings_per_second=rate).notes[0]

    def test_are_told_of_where_retention_does_not_keep_up(self) -> None:
        assert not any("Retention" in note for note in sized(firings_per_second=1000).notes)
        assert any("Retention" in note for note in sized(firings_per_second=1001).notes)


class TestFormulas:
    def test_have_the_numbers_that_give_the_figure(self) -> None:
        """Each formula that is one term of sums, products and quotients is computed as it is written."""
        computed = 0
        for name, need in sized(kept_bytes=100, replica=True).needs.items():
            term = need.formula.partition(", at least")[0].partition(" on different")[0].replace(",", "")
            term = re.sub(r"(?<=\d) [a-z][a-z -]*(?=[*+/) ]|$)", " ", term)
            if not re.fullmatch(r"[\d. +*/()-]+", term):
                continue
            computed += 1
            found = eval(term)
            assert need.value in (pytest.approx(found, rel=0.002), math.ceil(found)), (name, term)
        assert computed >= 8


class TestCosts:
    @pytest.mark.parametrize("name", COSTS)
    def test_stand_in_the_page_with_their_source(self, name: str) -> None:
        cost = COSTS[name]
        page = (ROOT / "docs" / "capacity.md").read_text()
        assert f"| `{name}` | {cost.value:,.10g} {cost.unit} | {cost.source} |" in page

    @pytest.mark.parametrize(
        ("name", "figure"),
        [("carried", "8,942 a second"), ("calls_rate", "3,282 to 3,404 a second"), ("beat_mib", "135 MiB")],
    )
    def test_are_those_of_the_benchmarks(self, name: str, figure: str) -> None:
        assert figure in (ROOT / "docs" / "benchmarks.md").read_text()
        times = 2 if name == "calls_rate" else 1
        assert f"{COSTS[name].value * times:,.0f}" in figure


class TestALoad:
    @pytest.mark.parametrize("name", BOUNDS)
    @pytest.mark.parametrize("beyond", ["low", "high", "nan"])
    def test_out_of_bounds_is_refused_by_name(self, name: str, beyond: str) -> None:
        low, high = BOUNDS[name]
        wrong = {"low": low - 1, "high": high + 1, "nan": math.nan}[beyond]
        with pytest.raises(InvalidInput, match=name):
            Load(**PLAIN | {name: wrong})
