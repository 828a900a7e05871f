"""Makes workflows, begins runs of them at a steady rate, and reads these.

Each run is asked for under an ``Idempotency-Key`` of its own until that is acknowledged. The calls that steer it after
that are in ``deeds``.
"""

import random
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, cycle

from chaos.history import InnerRun, Journal, RunAsked, WorkflowMade
from chaos.load.caller import AGAIN_SECONDS, Caller
from chaos.load.workflows.deeds import Hands
from chaos.load.workflows.reading import read_run
from chaos.load.workflows.shapes import WorkflowPlan

#: The number of runs that are steered at once.
HANDS = 12
#: Each inner run, the trigger of its task, and which start of that it was: the API does not show the last.
INNER = "SELECT id::text, trigger_id::text, task_start FROM jobs_workflowrun WHERE task_start IS NOT NULL"


@dataclass(kw_only=True)
class Runs:
    """Makes workflows, begins runs of them and reads these at the end, with the keys of a caller's tenants."""

    caller: Caller
    journal: Journal
    made: list[tuple[WorkflowMade, WorkflowPlan]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def make(self, plan: WorkflowPlan, *, tenant: str) -> WorkflowMade:
        """Create a workflow; raises the errors of ``Caller.call``."""
        definition = plan.definition(receiver_url=self.caller.receiver_url)
        answer = self.caller.call(tenant, "POST", "/workflows", definition)
        workflow = plan.made(answer, tenant=tenant, at=time.time())
        self.journal.note(workflow)
        self.made.append((workflow, plan))
        return workflow

    def begin(self, workflow: WorkflowMade, plan: WorkflowPlan, *, over: threading.Event) -> RunAsked:
        """Begin a run; ask again under the same key until that is acknowledged or ``over``."""
        number, requested_at, answer = next(self._numbers), time.time(), None
        given = plan.input(number, now=requested_at)
        path, body = f"/workflows/{workflow.workflow_id}/runs", {"input": {"number": number, **given}}
        while answer is None:
            try:
                answer = self.caller.call(workflow.tenant, "POST", path, body, key=f"chaos-run-{number}")
            except OSError:  # unreachable, too slow, or the first call is at work yet: it may have begun
                if over.wait(AGAIN_SECONDS):
                    break
        asked = RunAsked(
            workflow_id=workflow.workflow_id,
            number=number,
            requested_at=requested_at,
            acknowledged_at=None if answer is None else time.time(),
            run_id=answer["id"] if answer else "",
            scheduled_for=datetime.fromisoformat(answer["scheduled_for"]) if answer else None,
            input=given,
        )
        self.journal.note(asked)
        return asked

    @contextmanager
    def busy(self, rng: random.Random, *, every_seconds: float) -> Iterator[None]:
        """Begin runs of all workflows in turn until the block ends, then carry out the deeds that are left.

        Fails if a call was refused. If the block fails, the runs are left as they are.
        """
        over, broken_off = threading.Event(), threading.Event()
        done: list[Future[None]] = []
        with (
            ThreadPoolExecutor(max_workers=HANDS, thread_name_prefix="hands") as hands,
            ThreadPoolExecutor(max_workers=1, thread_name_prefix="runs") as beside,
        ):
            calls = beside.submit(self._go_on, rng, every_seconds, over, broken_off, hands, done)
            try:
                yield
            except BaseException:
                broken_off.set()
                raise
            finally:
                over.set()
        for call in (calls, *done):
            call.result()

    def _go_on(
        self,
        rng: random.Random,
        every_seconds: float,
        over: threading.Event,
        broken_off: threading.Event,
        hands: ThreadPoolExecutor,
        done: list[Future[None]],
    ) -> None:
        for workflow, plan in cycle(each for each in self.made if not (each[1].schedule or each[1].is_inner)):
            if over.wait(every_seconds * rng.uniform(0.5, 1.5)):
                return
            if self.caller.silent.is_set():
                continue
            asked, own = self.begin(workflow, plan, over=over), random.Random(rng.random())
            if asked.run_id and plan.deeds:
                hand = Hands(self.caller, self.journal, workflow, asked, over=over, broken_off=broken_off)
                done.append(hands.submit(hand.carry_out, plan.deeds, own))

    def note_inner(self, rows: Iterable[tuple[str, str, int]]) -> None:
        """Record which starts of tasks began inner runs; ``rows`` are those of ``INNER``."""
        for run_id, trigger_id, task_start in rows:
            self.journal.note(InnerRun(run_id=run_id, trigger_id=trigger_id, task_start=task_start))

    def read(self, *, reading: int) -> None:
        """Record every run of every workflow, as the API shows it."""
        for workflow, _ in self.made:
            path: str | None = f"/workflow-runs?workflow={workflow.workflow_id}&page_size=200"
            while path:
                page = self.caller.call(workflow.tenant, "GET", path)
                for row in page["results"]:
                    self.journal.note(read_run(self.caller, workflow.tenant, row["id"], reading=reading))
                path = page["next"] and page["next"].split("/api/v1", 1)[1]
