"""Percentiles of histograms, against those of the durations themselves."""

import math
import random
from collections import Counter

import pytest

from jobs.core.histogram import RATIO, SMALLEST, percentile


def binned(durations: list[float]) -> Counter[int]:
    """Bin durations as the statement does (store/sql/outcomes.sql: statistics)."""
    return Counter(
        math.ceil(math.log(max(duration, SMALLEST) / SMALLEST) / math.log(RATIO)) for duration in durations
    )


class TestPercentile:
    @pytest.mark.parametrize("share", [0.01, 0.5, 0.95, 0.99, 1.0])
    def test_is_right_within_five_per_cent(self, share: float) -> None:
        chance = random.Random(7)
        durations = sorted(chance.lognormvariate(0, 3) for _ in range(5_000))
        exact = durations[math.ceil(share * len(durations)) - 1]
        assert percentile(binned(durations), share) == pytest.approx(max(exact, SMALLEST), rel=0.0501)

    def test_of_none_is_none(self) -> None:
        assert percentile({}, 0.5) is None

    def test_of_what_took_no_time_is_the_smallest(self) -> None:
        assert percentile(binned([0.0, 0.0, 0.0001]), 0.99) == SMALLEST

    def test_has_three_digits(self) -> None:
        assert percentile({148: 1}, 0.5) == 1270
        assert percentile({9: 1}, 0.5) == 0.00225
