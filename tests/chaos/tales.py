"""The course of runs of the load's workflows in a sound system, told task by task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.load.workflows import FAN

#: When a run begins, in seconds after the start.
BEGINS = 10.0
#: By task (by item of a map, with its place), each execution: seconds after the run began, and the answer.
Story = Mapping[str, list[tuple[float, int]]]
GOOD = 200


@dataclass(frozen=True, kw_only=True)
class Tale:
    """A generation of a run.

    ``waits``: when each wait was over, and in which state. ``ends``: state and reason of tasks that were not executed;
    in the first generation without those that were skipped, later on of all such tasks. ``calls``: verb, when, and the
    task that is meant. ``retry``: when the next generation was asked for, and how. ``state``: the run's, if it does not
    follow from its tasks, and ``reason``: why it was cancelled. ``inner``: for tasks that are inner runs, when each
    began and its own tale, told from then on.
    """

    story: Story
    waits: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    ends: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    calls: Sequence[tuple[str, float, str]] = ()
    retry: tuple[float, dict[str, list[str]]] | None = None
    state: str = ""
    reason: str = ""
    inner: Mapping[str, "tuple[float, Tale]"] = field(default_factory=dict)


STORIES: dict[str, Story] = {
    "diamond": {
        "begin": [(0.05, 200)],
        "left": [(0.1, 200)],
        "right": [(0.1, 503), (1.2, 200)],
        "meet": [(1.3, 200)],
        "close": [(1.4, 200)],
    },
    "broken": {
        "begin": [(0.05, 200)],
        "left": [(0.1, 200)],
        "right": [(0.1, 500), (1.2, 500)],
        "mend": [(1.3, 200)],
        "after_mend": [(1.4, 200)],
        "close": [(1.5, 200)],
    },
    "fan": {
        "split": [(0.05, 200)],
        **{f"part{n}": [(0.1 + 0.02 * n, 200)] for n in range(FAN)},
        "gather": [(0.6, 200)],
    },
    "chain": {
        "step1": [(0.05, 200)],
        "step2": [(0.1, 503), (1.2, 200)],
        "step3": [(1.3, 200)],
        "step4": [(1.4, 200)],
        "step5": [(1.5, 200)],
    },
    "mixed": {
        "good": [(0.05, 200)],
        "refused": [(0.05, 400)],
        "late_failure": [(0.05, 500), (1.1, 500), (2.2, 500)],
        "any_good": [(0.1, 200)],
        "any_bad": [(2.3, 200)],
        "all_done": [(2.3, 200)],
    },
    "mapped": {
        "split": [(0.05, 200)],
        "each:0": [(0.1, 200)],
        "each:1": [(0.1, 500), (1.2, 500)],
        "each:2": [(0.1, 200)],
        "each:3": [(0.2, 200)],
        "each:4": [(0.2, 500), (1.3, 500)],
        "each:5": [(0.3, 200)],
        "gather": [(1.4, 200)],
        "mend": [(1.4, 200)],
    },
}
STORIES["narrow"] = STORIES["fan"] | {
    # Never more than six at once: each takes a hundredth of a second.
    "gather": [(1.0, 200)],
}
_WAITING = Tale(
    story={
        "begin": [(0.05, 200)],
        "after_nap": [(1.2, 200)],
        "after_moment": [(2.1, 200)],
        "after_paid": [(1.6, 200)],
        "after_unheard": [(2.2, 200)],
        "after_granted": [(2.6, 200)],
        "after_refused": [(3.6, 200)],
        "close": [(3.6, 200)],
    },
    waits={
        "nap": (1.1, "succeeded"),
        "moment": (2.0, "succeeded"),
        "paid": (1.51, "succeeded"),
        "unheard": (2.1, "failed"),
        "granted": (2.51, "succeeded"),
        "refused": (3.51, "cancelled"),
    },
    calls=[("signal", 1.5, "paid"), ("approve", 2.5, "granted"), ("refuse", 3.5, "refused")],
)
#: For each run that callers act on, its generations.
TALES: dict[str, list[Tale]] = {
    "waits": [_WAITING],
    "listed": [
        Tale(
            story={
                "begin": [(0.05, 200)],
                "each:0": [(0.1, 200)],
                "each:1": [(0.1, 503), (1.2, 503)],
                "each:2": [(0.2, 200)],
                "each:3": [(0.3, 200)],
            },
            ends={"each:4": ("skipped", "halted")},
            retry=(3.0, {}),
        ),
        Tale(story={"each:1": [(3.1, 200)], "each:4": [(3.1, 200)], "gather": [(3.2, 200)]}),
    ],
    "retried": [
        Tale(
            story={
                "begin": [(0.05, 200)],
                "weak": [(0.1, 503), (1.2, 503)],
                "beside": [(0.1, 200)],
                "alarm": [(1.3, 200)],
                "close": [(1.4, 200)],
            },
            retry=(1.6, {}),
        ),
        Tale(
            story={"weak": [(1.7, 200)], "after": [(1.8, 200)], "close": [(1.9, 200)]},
            ends={"alarm": ("skipped", "upstream")},
            retry=(3.0, {"tasks": ["beside"]}),
        ),
        Tale(story={"beside": [(3.1, 200)], "after": [(3.2, 200)], "close": [(3.3, 200)]}),
    ],
    "passed": [
        Tale(
            story={"begin": [(0.05, 200)], "bad": [(0.1, 400)], "beside": [(0.1, 200)]},
            retry=(2.0, {"skip": ["bad"]}),
        ),
        Tale(story={"after": [(2.1, 200)], "last": [(2.2, 200)]}),
    ],
    "cancelled": [
        Tale(
            story={"begin": [(0.05, 200)], "work": [(0.6, 200)]},
            waits={"hold": (1.01, "cancelled")},
            ends=dict.fromkeys(("after", "held", "mend"), ("cancelled", "requested")),
            calls=[("cancel", 1.0, "")],
            retry=(4.0, {}),
            state="cancelled",
        ),
        Tale(
            story={"after": [(4.1, 200)], "held": [(5.1, 200)]},
            waits={"hold": (5.01, "succeeded")},
            ends={"mend": ("skipped", "upstream")},
            calls=[("signal", 5.0, "hold")],
        ),
    ],
    "paused": [
        Tale(
            story={
                "begin": [(0.05, 200)],
                "each:0": [(0.4, 200)],
                "beside": [(0.4, 200)],
                "each:1": [(3.2, 200)],
                "each:2": [(3.8, 200)],
                "each:3": [(4.4, 200)],
                "gather": [(5.0, 200)],
            },
            calls=[("pause", 0.6, ""), ("resume", 3.1, "")],
        )
    ],
    "dropping": [Tale(story={"begin": [(0.05, 200)], "end": [(1.6, 200)]})],
}
TALES["lining"] = TALES["dropping"]
_DEEP = Tale(story={"work": [(0.05, 200)], "end": [(0.3, 200)]})
_MID = Tale(story={"first": [(0.05, 200)], "last": [(0.6, 200)]}, inner={"deep": (0.15, _DEEP)})
_WEAK = Tale(story={"first": [(0.05, 200)], "weak": [(0.1, 503), (1.2, 503)]})
_MENDED = Tale(story={"first": [(0.05, 200)], "weak": [(0.1, 200)], "last": [(0.2, 200)]})
_CALLED_OFF = Tale(
    story={"work": [(0.05, 200)]},
    waits={"hold": (0.8, "cancelled")},
    ends=dict.fromkeys(("more", "held"), ("cancelled", "requested")),
    state="cancelled",
    reason="outer",
)
_OVERDUE = Tale(
    story={"work": [(0.05, 200)], "more": [(1.1, 200)]},
    waits={"hold": (4.6, "cancelled")},
    ends={"held": ("cancelled", "requested")},
    state="cancelled",
    reason="outer",
)
_CANCELLED = dict.fromkeys(("after", "mend"), ("cancelled", "requested"))
#: Runs with inner runs.
INNER: dict[str, list[Tale]] = {
    "nested": [
        Tale(
            story={"begin": [(0.05, 200)], "beside": [(0.1, 200)], "after": [(0.9, 200)]},
            inner={"mid": (0.15, _MID)},
        )
    ],
    "redone": [
        Tale(
            story={"begin": [(0.05, 200)], "alarm": [(1.5, 200)], "close": [(1.6, 200)]},
            inner={"inner": (0.15, _WEAK)},
            retry=(2.0, {}),
        ),
        Tale(
            story={"after": [(2.5, 200)], "close": [(2.6, 200)]},
            ends={"alarm": ("skipped", "upstream")},
            inner={"inner": (2.1, _MENDED)},
            retry=(4.0, {"tasks": ["inner"]}),
        ),
        Tale(
            story={"after": [(4.5, 200)], "close": [(4.6, 200)]},
            ends={"alarm": ("skipped", "upstream")},
            inner={"inner": (4.1, _MENDED)},
        ),
    ],
    "called_off": [
        Tale(
            story={"begin": [(0.05, 200)]},
            ends=_CANCELLED,
            calls=[("cancel", 1.0, "")],
            retry=(4.0, {}),
            state="cancelled",
            reason="requested",
            inner={"inner": (0.35, _CALLED_OFF)},
        ),
        Tale(
            story={},
            ends=_CANCELLED,
            calls=[("cancel", 4.8, "")],
            state="cancelled",
            reason="requested",
            inner={"inner": (4.1, _CALLED_OFF)},
        ),
    ],
    "overdue": [
        Tale(
            story={"begin": [(0.05, 200)]},
            ends=_CANCELLED,
            state="cancelled",
            reason="deadline",
            inner={"inner": (0.15, _OVERDUE)},
        )
    ],
}
#: For runs of schedules: when each begins, in seconds after the start, and how many seconds it waits for the one
#: before.
TIMED: dict[str, list[tuple[float, float]]] = {
    "dropping": [(1.75, 0.0), (19.75, 0.0), (39.75, 0.0)],
    "lining": [(4.75, 0.0), (6.75, 1.3), (34.75, 0.0), (36.75, 1.3)],
}
