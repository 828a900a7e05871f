"""The calls that steer runs: they pause, cancel and retry them, and answer their waits.

A call is repeated until it is acknowledged, as a service would do; each is on record before the run is looked at again.
A run is retried once it was seen to have ended, and that reading is on record too. Deeds that have begun are carried
through after the load is over, unless that takes longer than ``PATIENCE_SECONDS``: then something is wrong with the
run.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from chaos.history import Journal, RunAsked, RunSeen, Steered, WorkflowMade
from chaos.load.caller import AGAIN_SECONDS, Caller, Refused
from chaos.load.workflows.reading import read_run
from chaos.load.workflows.shapes import Deed

LOOK_SECONDS = 1.0
#: As long as a partition and its aftermath may last.
PATIENCE_SECONDS = 90.0
#: By verb, the end of the path; for the other verbs it is the verb itself.
_PATHS = {"signal": "signals/{task}", "approve": "tasks/{task}/approve", "refuse": "tasks/{task}/refuse"}
_OVER = {"succeeded", "failed", "cancelled", "skipped"}


class GivenUpError(Exception):
    """The run did not come to the awaited state in all this time."""


@dataclass
class Hands:
    """The hands of one run's caller. ``over``: the load is over. ``broken_off``: the load is broken off, and the run is
    not looked at again.
    """

    caller: Caller
    journal: Journal
    workflow: WorkflowMade
    asked: RunAsked
    over: threading.Event = field(kw_only=True)
    broken_off: threading.Event = field(kw_only=True)
    retries: int = field(default=0, init=False)
    _given_up_at: float = field(default=float("inf"), init=False)

    def carry_out(self, deeds: tuple[Deed, ...], rng: random.Random) -> None:
        """Carry out all deeds, one after the other."""
        try:
            for deed in deeds:
                if self.asked.number % deed.every == 0:
                    self._do(deed, rng)
        except GivenUpError:
            return  # the judge will find the deeds that are left undone

    def _do(self, deed: Deed, rng: random.Random) -> None:
        self._pause(rng.uniform(*deed.after))
        if deed.verb == "retry":
            self._retry(deed)
        elif deed.task:
            self._answer(deed)
        else:
            self._steer(deed.verb)

    def _answer(self, deed: Deed) -> None:
        """Answer once the task waits; not if it ended before."""
        body = {"payload": {"sent": self.asked.number}} if deed.verb == "signal" else {}
        while self._state_of(deed.task) == "started":
            # A second call would be refused if the first one was carried out: the run's state tells.
            if self._steer(deed.verb, task=deed.task, body=body, repeats=False):
                return

    def _state_of(self, task: str) -> str:
        """The state of a task, once it has started or ended."""
        state: str = self._until(lambda seen: seen.tasks[task]["state"], {"started", *_OVER}.__contains__)
        return state

    def _retry(self, deed: Deed) -> None:
        seen = self._until(lambda seen: seen, lambda seen: seen.state != "running")
        if seen.state == "succeeded" and not deed.tasks:
            return
        self.journal.note(seen)
        self.retries += 1
        body = {"tasks": list(deed.tasks), "skip": self._failed(seen, deed.skip)}
        if deed.skip and not body["skip"]:
            return
        key = f"chaos-retry-{self.asked.run_id}-{self.retries}"
        self._steer("retry", body=body, key=key, tasks=body["tasks"], skip=body["skip"])

    def _failed(self, seen: RunSeen, tasks: tuple[str, ...]) -> list[str]:
        return [task for task in tasks if seen.tasks[task]["state"] in ("failed", "cancelled")]

    def _steer(
        self, verb: str, *, task: str = "", body: Any = None, key: str = "", repeats: bool = True, **told: Any
    ) -> bool:
        """Call until the call is acknowledged, or once, and record that. Returns whether it was acknowledged."""
        path = f"/workflow-runs/{self.asked.run_id}/{_PATHS.get(verb, verb).format(task=task)}"
        requested_at, acknowledged_at = time.time(), None
        while acknowledged_at is None:
            try:
                self.caller.call(self.workflow.tenant, "POST", path, body, key=key)
                acknowledged_at = time.time()
            except Refused as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                break  # the run, or the wait, had ended; or an earlier one of these calls did it
            except OSError:  # it may have happened
                if not repeats or not self._goes_on(AGAIN_SECONDS):
                    break
        self.journal.note(
            Steered(
                run_id=self.asked.run_id,
                verb=verb,
                requested_at=requested_at,
                acknowledged_at=acknowledged_at,
                task=task,
                **told,
            )
        )
        return acknowledged_at is not None

    def _until(self, look: Callable[[RunSeen], Any], fits: Callable[[Any], bool]) -> Any:
        """The result of ``look`` at the run, once it fits. Raises ``GivenUpError``."""
        while True:
            try:
                found = look(read_run(self.caller, self.workflow.tenant, self.asked.run_id, reading=0))
                if fits(found):
                    return found
            except OSError:
                pass  # the next look tells
            self._pause(LOOK_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Pause at least so long, and until calls are allowed. Raises ``GivenUpError``."""
        while not self._goes_on(seconds) or self.caller.silent.is_set():
            seconds = LOOK_SECONDS
            if time.monotonic() > self._given_up_at:
                raise GivenUpError

    def _goes_on(self, seconds: float) -> bool:
        """Wait; False once the load has been over for too long."""
        if self.broken_off.wait(seconds):
            raise GivenUpError
        if not self.over.is_set():
            return True
        self._given_up_at = min(self._given_up_at, time.monotonic() + PATIENCE_SECONDS)
        return time.monotonic() <= self._given_up_at
