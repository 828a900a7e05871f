"""One process on the stage: how much memory it takes, whether it still runs, and how it is stopped."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from stage.processes import family, tail

STOP_SECONDS = 20.0
LOG_TAIL_LINES = 20
MIB = 1024 * 1024


class BenchError(RuntimeError):
    """A bench could not be carried out; the message says why."""


@dataclass
class ManagedProcess:
    """A process with its log. ``may_end``: it may end by itself, with 0."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    may_end: bool

    def failed(self) -> str | None:
        """Why it is gone, with the end of its log; None while all is well."""
        code = self.process.poll()
        if code is None or (code == 0 and self.may_end):
            return None
        return f"{self.name} ended with {code}:\n{tail(self.log, LOG_TAIL_LINES)}"

    def ended(self) -> bool:
        """Whether it came to its end, as it should."""
        return self.process.poll() == 0

    def rss_mib(self) -> float:
        """Resident memory of the process and all its children now."""
        return sum(process.memory_info().rss for process in family(self.process.pid)) / MIB

    def peak_rss_mib(self) -> float:
        """The peak of the resident memory of the process itself, without children (Linux' VmHWM)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return int(fields["VmHWM"].split()[0]) / 1024

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for its whole group."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
