"""A process that is killed in the midst of its work and started again, as a supervisor would."""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Self

from benchmarks.stage.servers import Stage


class Victim:
    """``python argv`` for the length of a ``with`` block."""

    def __init__(
        self, stage: Stage, name: str, argv: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> None:
        self._stage, self._name, self._argv, self._environment = stage, name, argv, environment
        self._life = ExitStack()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._life.close()

    def _start(self) -> None:
        actor = self._stage.actor(self._name, self._argv, environment=self._environment)
        self._pid = self._life.enter_context(actor).process.pid

    def kill(self) -> None:
        """``kill -9`` the process and its children, and start it again."""
        os.killpg(self._pid, signal.SIGKILL)
        self._life.close()
        self._start()
