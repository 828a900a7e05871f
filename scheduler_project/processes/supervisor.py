"""Keeps child processes alive in one terminal, and stops them in order.

One thread with one loop waits for the children's output, for signals (through the wake-up socket, so that
handlers do nothing) and for the next deadline. The first SIGINT, SIGTERM or SIGHUP drains: the lowest
``order`` is stopped first, the next order when the first is gone. Every further signal makes each stop one stage
firmer, and the orders no longer wait for one another. A child that dies is started again with exponential back-off. No
child outlives ``run``, however it ends.

honcho was considered and rejected: it stops everything when one process dies, spends a second
Python process on each child, and knows neither order nor back-off.
"""

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from scheduler_project.embedded.watch import ServerWatch
from scheduler_project.processes.child import Child, ProcessSpec, Running, StopStage, start_program
from scheduler_project.processes.console import Console

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SUPERVISOR = "up"
MAX_WAIT_SECONDS = 60.0


class Supervisor:
    """Runs ``specs`` until it is told to stop.

    ``start`` starts a child. ``servers`` are kept alive beside them, and their events are printed. ``state_path``
    always holds the present ``{"processes": {name: pid}, …}`` as JSON, together with ``about``. It is replaced
    atomically at each change and removed at the end.
    """

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        *,
        state_path: Path,
        about: Mapping[str, Any] | None = None,
        console: Console | None = None,
        servers: ServerWatch | None = None,
        start: Callable[[ProcessSpec], Running] = start_program,
    ) -> None:
        self.children = [Child(spec, start) for spec in specs]
        self.state_path = state_path
        self.about = dict(about or {})
        self._servers = servers
        self.console = console or Console(names=[SUPERVISOR, *(spec.name for spec in specs)])
        self._selector = selectors.DefaultSelector()
        self._stop_requests = 0

    def run(self) -> None:
        """Start all processes, keep them alive, and return when all have stopped. Main thread only."""
        with ExitStack() as ending:
            ending.enter_context(self._signals_to_selector())
            self.state_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            ending.callback(self.state_path.unlink, missing_ok=True)
            ending.callback(self._kill_all)
            if self._servers:
                self._selector.register(self._servers, selectors.EVENT_READ, self._servers)
            while not self._stop_requests:
                self._start_due()
                self._turn()
            self._drain()

    def _drain(self) -> None:
        self._say("stopping; a second signal stops faster")
        for order in sorted({child.spec.order for child in self.children}):
            here = [child for child in self.children if child.spec.order == order]
            for child in here:
                if child.stage is StopStage.KEPT:
                    child.press()
            while any(child.process for child in here):
                self._turn()
                self._press_the_late()

    def _press_the_late(self) -> None:
        now = time.monotonic()
        for child in self.children:
            if child.process and child.stage is not StopStage.KEPT and now >= child.stage_ends_at:
                child.press()
                self._say(f"{child.spec.name} did not stop in time: {child.stage.name.lower()}")

    def _start_due(self) -> None:
        for child in self.children:
            if child.process is None and time.monotonic() >= child.start_at:
                try:
                    child.start()
                except OSError as error:
                    self._say(f"{child.spec.name} cannot start ({error}), {_restart(child)}")
                else:
                    assert child.output
                    self._selector.register(child.output, selectors.EVENT_READ, child)
                    self._write_state()

    def _turn(self) -> None:
        """Wait for something to happen and deal with it."""
        for key, _ in self._selector.select(self._wait_seconds()):
            if isinstance(key.data, Child):
                self._relay(key.data)
            elif isinstance(key.data, ServerWatch):
                self._tell_news(key.data)
            else:
                self._count_signals(key.data)
        for child in self.children:
            code = child.reap()
            if code is not None:
                self._bury(child, code)
        if self.console.lost and not self._stop_requests:
            self._stop_requests = 1

    def _wait_seconds(self) -> float:
        if self._stop_requests:
            deadlines = [child.stage_ends_at for child in self.children if child.process]
        else:
            deadlines = [child.start_at for child in self.children if child.process is None]
        return max(0.0, min([*deadlines, time.monotonic() + MAX_WAIT_SECONDS]) - time.monotonic())

    def _relay(self, child: Child) -> bool:
        """Print the output of ``child``; False when there is no more for now."""
        data = child.read()
        if data:
            self.console.feed(child.spec.name, data)
        elif data == b"":
            self._close_output(child)
        return bool(data)

    def _tell_news(self, servers: ServerWatch) -> None:
        for line in servers.news():
            self._say(line)
        self.about["servers"] = servers.pids
        self._write_state()

    def _close_output(self, child: Child) -> None:
        if child.output:
            self._selector.unregister(child.output)
            child.output.close()
            child.output = None

    def _bury(self, child: Child, code: int) -> None:
        while self._relay(child):
            pass
        self._close_output(child)
        self.console.finish(child.spec.name)
        how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        self._say(f"{child.spec.name} {how}" + ("" if self._stop_requests else f", {_restart(child)}"))
        self._write_state()

    def _count_signals(self, receiver: socket.socket) -> None:
        for number in receiver.recv(1024):
            if number not in STOP_SIGNALS:
                continue
            self._stop_requests += 1
            if self._stop_requests > 1:
                for child in self.children:
                    child.press(hasten=True)

    def _kill_all(self) -> None:
        for child in self.children:
            child.kill()
            self._close_output(child)

    def _write_state(self) -> None:
        pids = {child.spec.name: child.process.pid for child in self.children if child.process}
        draft = self.state_path.with_suffix(".new")
        draft.write_text(json.dumps({"up": os.getpid(), **self.about, "processes": pids}, indent=2))
        draft.replace(self.state_path)

    def _say(self, text: str) -> None:
        self.console.say(SUPERVISOR, text)

    @contextmanager
    def _signals_to_selector(self) -> Iterator[None]:
        """Turn signals into readable bytes; also SIGCHLD, so that a child's death ends the wait at once."""
        receiver, sender = socket.socketpair()
        with receiver, sender:
            sender.setblocking(False)
            self._selector.register(receiver, selectors.EVENT_READ, receiver)
            # A signal that is ignored stays ignored: nohup relies on that to survive a hang-up.
            heard = [n for n in (*STOP_SIGNALS, signal.SIGCHLD) if signal.getsignal(n) is not signal.SIG_IGN]
            handlers = {number: signal.signal(number, lambda *_: None) for number in heard}
            wakeup = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
            try:
                yield
            finally:
                signal.set_wakeup_fd(wakeup)
                for number, handler in handlers.items():
                    signal.signal(number, handler)
                self._selector.close()


def _restart(child: Child) -> str:
    return f"starting again in {child.schedule_restart().total_seconds():g} s"
