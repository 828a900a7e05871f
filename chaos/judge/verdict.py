"""The judge's answer: breaches of the promises, and the figures of each episode."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, kw_only=True)
class Breach:
    """A promise that was not kept. ``kind`` is one word or two; ``at`` is seconds since 1970."""

    kind: str
    at: float
    job: str
    detail: str

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.at, UTC).strftime("%H:%M:%S.%f")[:-3]
        return f"{self.kind}: {self.job} at {moment}: {self.detail}"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of the firings that fell due from one fault to the next; ``number`` 0 is the calm before the first.

    ``late``: started more than ``limits.LATE_SECONDS`` after their instant. ``repeated``: executed more than once, of
    ``in_flight`` that were under way while the fault lasted. ``resumed_seconds``: from the heal until nothing was late.
    ``api_p99_seconds``: the p99 of another tenant's calls, where they were timed; 0 where not.
    """

    number: int
    name: str
    strikes: int
    struck_at: float
    healed_at: float
    firings: int
    lost: int
    doubled: int
    repeated: int
    in_flight: int
    late: int
    latest_seconds: float
    p50_seconds: float
    p99_seconds: float
    resumed_seconds: float
    reclaimed_seconds: float
    api_p99_seconds: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The judgement of one history. ``excused`` counts the deviations that a fault allows, by their description.

    ``firings``: required ones, and required tasks of the ``runs`` of workflows.
    """

    breaches: Sequence[Breach]
    figures: Sequence[Figures]
    excused: Counter[str]
    firings: int
    deliveries: int
    runs: int = 0

    @property
    def passed(self) -> bool:
        """Nothing was breached, and there was something to judge."""
        return not self.breaches and self.firings > 0

    @property
    def summary(self) -> str:
        """One line."""
        counts = Counter(breach.kind for breach in self.breaches)
        said = ", ".join(f"{count} {kind}" for kind, count in counts.most_common()) or "no promise broken"
        if not self.firings:
            said = "nothing was due, so nothing is shown"
        runs = f", {self.runs} runs of workflows" if self.runs else ""
        return f"{self.firings} firings required{runs}, {self.deliveries} deliveries: {said}"
