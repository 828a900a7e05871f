"""Histograms of durations, in bins: each bin ends ten per cent above the bin before it.

So a percentile is right within five per cent, however long the durations are.
"""

import math
from collections.abc import Mapping

#: Bin 0 holds durations of this many seconds, and all shorter ones.
SMALLEST = 0.001
RATIO = 1.1
_DIGITS = 3


def percentile(histogram: Mapping[int, int], share: float) -> float | None:
    """The duration in seconds within which ``share`` (0 to 1) of the durations in ``histogram`` (counts by bin) lie.

    It is the middle of a bin, to three digits. None for an empty histogram.
    """
    wanted = share * sum(histogram.values())
    seen = 0
    for number, count in sorted(histogram.items()):
        seen += count
        if seen >= wanted:
            return _middle(number)
    return None


def _middle(number: int) -> float:
    seconds = SMALLEST * RATIO ** (number - 0.5) if number > 0 else SMALLEST
    return round(seconds, _DIGITS - 1 - math.floor(math.log10(seconds)))
