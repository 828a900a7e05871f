"""The load's workflows that have runs of others within them, each after those that it names."""

from chaos.load.workflows.shapes import Deed, Task, WorkflowPlan

#: A run is cancelled so many seconds after it began: its inner run is at work then, or waits.
GOING_ON = (1.0, 3.0)
#: Later than the end of all work that goes on by itself.
DEADLINE_SECONDS = 4.0


def nested() -> list[WorkflowPlan]:
    """Runs two deep that succeed. Each takes what its outer run gives it; the outermost takes results out of both."""
    return [
        WorkflowPlan(
            name="nested_deep",
            is_inner=True,
            tasks={"work": Task(seconds=0.2, brings=("input.first",)), "end": Task(brings=("work",))},
            edges=[("work", "end", "on_success")],
        ),
        WorkflowPlan(
            name="nested_mid",
            is_inner=True,
            tasks={
                "first": Task(brings=("input.begin",)),
                "deep": Task(inner="nested_deep", gives=("first",)),
                "last": Task(brings=("deep.end",)),
            },
            edges=[("first", "deep", "on_success"), ("deep", "last", "on_success")],
        ),
        WorkflowPlan(
            name="nested",
            tasks={
                "begin": Task(),
                "mid": Task(inner="nested_mid", gives=("begin",)),
                "beside": Task(brings=("begin",)),
                "after": Task(brings=("mid.first", "mid.deep.work", "beside")),
                "mend": Task(),
            },
            edges=[
                ("begin", "mid", "on_success"),
                ("begin", "beside", "on_success"),
                ("mid", "after", "on_success"),
                ("beside", "after", "on_success"),
                ("mid", "mend", "on_failure"),
            ],
        ),
    ]


def redone() -> list[WorkflowPlan]:
    """An inner run fails until its outer run is retried, which begins another inner run. Every other run has a third,
    begun by a task that had succeeded.
    """
    return [
        WorkflowPlan(
            name="redone_inner",
            is_inner=True,
            tasks={
                "first": Task(brings=("input.begin",)),
                "weak": Task(target="flaky", failures=2, max_attempts=2, by_number=True),
                "last": Task(brings=("weak",)),
            },
            edges=[("first", "weak", "on_success"), ("weak", "last", "on_success")],
        ),
        WorkflowPlan(
            name="redone",
            tasks={
                "begin": Task(),
                "inner": Task(inner="redone_inner", gives=("begin",)),
                "after": Task(brings=("inner.weak", "begin")),
                "alarm": Task(brings=("begin",)),
                "close": Task(when="all_finished"),
            },
            edges=[
                ("begin", "inner", "on_success"),
                ("inner", "after", "on_success"),
                ("inner", "alarm", "on_failure"),
                ("after", "close", "on_finished"),
                ("alarm", "close", "on_finished"),
            ],
            on_failure="continue",
            deeds=(Deed(verb="retry"), Deed(verb="retry", tasks=("inner",), every=2)),
        ),
    ]


def called_off() -> list[WorkflowPlan]:
    """A run is cancelled while its inner run goes on; nothing else ends the inner run. Every other run is retried and
    cancelled once more.
    """
    return [
        _endless("called_off_inner"),
        WorkflowPlan(
            name="called_off",
            tasks={
                "begin": Task(seconds=0.2),
                "inner": Task(inner="called_off_inner", gives=("begin",)),
                "after": Task(),
                "mend": Task(),
            },
            edges=[
                ("begin", "inner", "on_success"),
                ("inner", "after", "on_success"),
                ("inner", "mend", "on_failure"),
            ],
            deeds=(
                Deed(verb="cancel", after=GOING_ON),
                Deed(verb="retry", every=2),
                Deed(verb="cancel", after=GOING_ON, every=2),
            ),
        ),
    ]


def overdue() -> list[WorkflowPlan]:
    """A run has a deadline, which its inner run lets pass: nothing else ends either run."""
    return [
        _endless("overdue_inner"),
        WorkflowPlan(
            name="overdue",
            tasks={
                "begin": Task(),
                "inner": Task(inner="overdue_inner", gives=("begin",)),
                "after": Task(),
                "mend": Task(),
            },
            edges=[
                ("begin", "inner", "on_success"),
                ("inner", "after", "on_success"),
                ("inner", "mend", "on_failure"),
            ],
            deadline_seconds=DEADLINE_SECONDS,
        ),
    ]


def _endless(name: str) -> WorkflowPlan:
    """Works for a while, and waits for a signal that is never sent."""
    return WorkflowPlan(
        name=name,
        is_inner=True,
        tasks={
            "work": Task(seconds=1.0, brings=("input.begin",)),
            "more": Task(seconds=0.5, brings=("work",)),
            "hold": Task(wait={"type": "signal"}),
            "held": Task(),
        },
        edges=[("work", "more", "on_success"), ("hold", "held", "on_success")],
    )
