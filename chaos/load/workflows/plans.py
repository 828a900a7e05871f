"""The load's workflows: one of each shape, and one for each way in which callers steer runs."""

from itertools import pairwise
from typing import Any

from chaos.load.workflows.inner import called_off, nested, overdue, redone
from chaos.load.workflows.shapes import OF_INPUT, Deed, Task, WorkflowPlan

#: The tasks of one fan-out; the task after them takes each result.
FAN = 20
MAX_PARALLEL = 6
#: A run is cancelled or paused so many seconds after it began, and resumed so many seconds after that.
SOON = (0.5, 2.5)
PAUSED = (2.0, 3.0)


def workflow_plans() -> list[WorkflowPlan]:
    """One of each, after the workflows that are its inner runs; a short run of the load has only the first ones."""
    return [
        _diamond("diamond"),
        _mapped(),
        *nested(),
        _waits(),
        *redone(),
        *called_off(),
        _retried(),
        _cancelled(),
        _paused(),
        *overdue(),
        _passed(),
        _listed(),
        _diamond("broken", fails=True),
        _fan("fan"),
        _chain(),
        _mixed(),
        _narrow(),
        _timed("dropping", "0,2,20,22,40,42 * * * * ?", "skip"),
        _timed("lining", "5,7,35,37 * * * * ?", "queue"),
    ]


def _diamond(name: str, *, fails: bool = False) -> WorkflowPlan:
    """Two branches that meet again, and one that is taken only if the right one fails; the workflow halts."""
    right = Task(target="failing", max_attempts=2) if fails else Task(target="flaky", failures=1)
    return WorkflowPlan(
        name=name,
        tasks={
            "begin": Task(),
            "left": Task(brings=("begin",), seconds=0.2),
            "right": right,
            "meet": Task(brings=() if fails else ("left", "right")),
            "mend": Task(brings=("begin",)),
            "after_mend": Task(job_type="webhook", brings=("mend",)),
            "close": Task(when="all_finished"),
        },
        edges=[
            ("begin", "left", "on_success"),
            ("begin", "right", "on_success"),
            ("left", "meet", "on_success"),
            ("right", "meet", "on_success"),
            ("right", "mend", "on_failure"),
            ("mend", "after_mend", "on_success"),
            ("meet", "close", "on_finished"),
            ("after_mend", "close", "on_finished"),
        ],
    )


def _fan(name: str, **bounds: Any) -> WorkflowPlan:
    """Out to many, and in again: the last task takes the results of all."""
    keys = [f"part{n}" for n in range(FAN)]
    return WorkflowPlan(
        name=name,
        tasks={
            "split": Task(),
            **{key: Task(brings=("split",)) for key in keys},
            "gather": Task(brings=tuple(keys)),
        },
        edges=[
            *(("split", key, "on_success") for key in keys),
            *((key, "gather", "on_success") for key in keys),
        ],
        **bounds,
    )


def _narrow() -> WorkflowPlan:
    return _fan("narrow", max_parallel=MAX_PARALLEL)


def _chain() -> WorkflowPlan:
    """One after the other, with an effect made once and a retry."""
    tasks = {
        "step1": Task(),
        "step2": Task(target="flaky", failures=1, brings=("step1",)),
        "step3": Task(target="once", delivery="exactly_once", job_type="chaos.once"),
        "step4": Task(brings=("step2",)),
        "step5": Task(job_type="webhook", brings=("step4",)),
    }
    return WorkflowPlan(
        name="chain", tasks=tasks, edges=[(one, other, "on_success") for one, other in pairwise(tasks)]
    )


def _mixed() -> WorkflowPlan:
    """Failures that do not stop the rest: each way in which a task may need those before it."""
    return WorkflowPlan(
        name="mixed",
        tasks={
            "good": Task(),
            "refused": Task(target="refusing", job_type="webhook"),
            "late_failure": Task(target="failing", max_attempts=3),
            "any_good": Task(when="any_success"),
            "any_bad": Task(when="any_failure"),
            "all_good": Task(),
            "all_done": Task(when="all_finished", brings=("good",)),
        },
        edges=[
            ("good", "any_good", "on_success"),
            ("late_failure", "any_good", "on_success"),
            ("good", "any_bad", "on_failure"),
            ("late_failure", "any_bad", "on_failure"),
            ("good", "all_good", "on_success"),
            ("refused", "all_good", "on_success"),
            ("any_good", "all_done", "on_finished"),
            ("all_good", "all_done", "on_finished"),
            ("late_failure", "all_done", "on_finished"),
        ],
        on_failure="continue",
    )


def _mapped() -> WorkflowPlan:
    """A map over the answer to a task, three at once; two of its items fail for good, and the rest go on."""
    return WorkflowPlan(
        name="mapped",
        tasks={
            "split": Task(lists=6),
            "each": Task(over="split", parallel=3, target="failing", max_attempts=2, only=(1, 4)),
            "gather": Task(when="all_finished", brings=("each",)),
            "mend": Task(brings=("split",)),
            "never": Task(),
        },
        edges=[
            ("split", "each", "on_success"),
            ("each", "gather", "on_finished"),
            ("each", "mend", "on_failure"),
            ("each", "never", "on_success"),
        ],
        on_failure="continue",
    )


def _listed() -> WorkflowPlan:
    """A map over the input's list, two at once; one item fails until the run is retried, which keeps the others."""
    return WorkflowPlan(
        name="listed",
        tasks={
            "begin": Task(),
            "each": Task(over=OF_INPUT, parallel=2, target="flaky", failures=2, max_attempts=2, only=(1,)),
            "gather": Task(brings=("each", "begin")),
        },
        edges=[("begin", "each", "on_success"), ("each", "gather", "on_success")],
        deeds=(Deed(verb="retry"),),
    )


def _waits() -> WorkflowPlan:
    """Each kind of wait, each way in which it ends, and the tasks after it."""
    return WorkflowPlan(
        name="waits",
        tasks={
            "begin": Task(),
            "nap": Task(wait={"type": "time", "seconds": 1.0}),
            "after_nap": Task(),
            "moment": Task(wait={"type": "time", "until": {"$from": "workflow.input.until"}}),
            "after_moment": Task(),
            "paid": Task(wait={"type": "signal", "timeout_seconds": 3600}),
            "after_paid": Task(brings=("paid",)),
            "unheard": Task(wait={"type": "signal", "timeout_seconds": 2.0}),
            "after_unheard": Task(),
            "granted": Task(wait={"type": "approval"}),
            "after_granted": Task(brings=("granted", "begin")),
            "refused": Task(wait={"type": "approval"}),
            "after_refused": Task(),
            "close": Task(when="all_finished"),
        },
        edges=[
            *(("begin", key, "on_success") for key in ("nap", "moment", "paid", "unheard", "granted")),
            ("nap", "after_nap", "on_success"),
            ("moment", "after_moment", "on_success"),
            ("paid", "after_paid", "on_success"),
            ("unheard", "after_unheard", "on_failure"),
            ("granted", "after_granted", "on_success"),
            ("granted", "refused", "on_success"),
            ("refused", "after_refused", "on_failure"),
            ("refused", "close", "on_finished"),
            ("unheard", "close", "on_finished"),
        ],
        on_failure="continue",
        deeds=(
            Deed(verb="signal", task="paid"),
            Deed(verb="approve", task="granted"),
            Deed(verb="refuse", task="refused"),
        ),
    )


def _retried() -> WorkflowPlan:
    """A task fails until its run is retried. Every other run is then retried from a task that had succeeded."""
    return WorkflowPlan(
        name="retried",
        tasks={
            "begin": Task(),
            "weak": Task(target="flaky", failures=2, max_attempts=2),
            "beside": Task(brings=("begin",)),
            "after": Task(brings=("weak", "beside")),
            "alarm": Task(brings=("begin",)),
            "close": Task(when="all_finished"),
        },
        edges=[
            ("begin", "weak", "on_success"),
            ("begin", "beside", "on_success"),
            ("weak", "after", "on_success"),
            ("beside", "after", "on_success"),
            ("weak", "alarm", "on_failure"),
            ("after", "close", "on_finished"),
            ("alarm", "close", "on_finished"),
        ],
        on_failure="continue",
        deeds=(Deed(verb="retry"), Deed(verb="retry", tasks=("beside",), every=2)),
    )


def _passed() -> WorkflowPlan:
    """Goes on without a task that fails for good."""
    return WorkflowPlan(
        name="passed",
        tasks={
            "begin": Task(),
            "bad": Task(target="refusing", job_type="webhook"),
            "beside": Task(),
            "after": Task(brings=("begin",)),
            "last": Task(brings=("after", "beside")),
        },
        edges=[
            ("begin", "bad", "on_success"),
            ("begin", "beside", "on_success"),
            ("bad", "after", "on_success"),
            ("after", "last", "on_success"),
            ("beside", "last", "on_success"),
        ],
        on_failure="continue",
        deeds=(Deed(verb="retry", skip=("bad",)),),
    )


def _cancelled() -> WorkflowPlan:
    """Is cancelled, at work or not; every other run goes on after that."""
    return WorkflowPlan(
        name="cancelled",
        tasks={
            "begin": Task(seconds=0.5),
            "work": Task(seconds=1.5),
            "after": Task(brings=("begin",)),
            "hold": Task(wait={"type": "signal"}),
            "held": Task(brings=("hold",)),
            "mend": Task(),
        },
        edges=[
            ("begin", "work", "on_success"),
            ("work", "after", "on_success"),
            ("begin", "hold", "on_success"),
            ("hold", "held", "on_success"),
            ("hold", "mend", "on_failure"),
        ],
        deeds=(
            Deed(verb="cancel", after=SOON),
            Deed(verb="retry", every=2),
            Deed(verb="signal", task="hold", every=2),
        ),
    )


def _paused() -> WorkflowPlan:
    """Stands still for a while, with a map under way."""
    return WorkflowPlan(
        name="paused",
        tasks={
            "begin": Task(lists=4, seconds=0.3),
            "each": Task(over="begin", parallel=1, seconds=0.5),
            "beside": Task(seconds=0.5),
            "gather": Task(brings=("each",)),
        },
        edges=[
            ("begin", "each", "on_success"),
            ("begin", "beside", "on_success"),
            ("each", "gather", "on_success"),
            ("beside", "gather", "on_success"),
        ],
        deeds=(Deed(verb="pause", after=SOON), Deed(verb="resume", after=PAUSED)),
    )


def _timed(name: str, cron: str, overlap_policy: str) -> WorkflowPlan:
    """Begun by its schedule, at two instants close together: the second one finds a run that goes on."""
    return WorkflowPlan(
        name=name,
        tasks={"begin": Task(seconds=1.5), "end": Task(seconds=1.5, brings=("begin",))},
        edges=[("begin", "end", "on_success")],
        schedule={"type": "cron", "cron": cron, "cron_dialect": "quartz", "timezone": "UTC"},
        overlap_policy=overlap_policy,
    )
