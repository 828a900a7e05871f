"""Wall clocks that can be set apart: a library preloaded into each process adds the whole seconds that a file holds.

It needs a C compiler. Without one every clock is the machine's, and faults 10 and 27 are left out.
"""

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "clock.c"
COMPILER = shutil.which("cc")


def compile_library(library: Path) -> None:
    """Raises ``CalledProcessError`` when it cannot be compiled."""
    command = [str(COMPILER), "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)


def set_clock(file: Path, seconds: int) -> None:
    """Put the clock that looks at ``file`` so many seconds ahead (or behind), at once."""
    with open(file, "r+b" if file.exists() else "wb") as opened:
        opened.write(struct.pack("l", seconds))


class Clocks:
    """One file for each process in ``home``; ``environment`` makes a process look at its own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._library = home / "clock.so"
        if COMPILER:
            compile_library(self._library)

    def environment(self, name: str) -> dict[str, str]:
        if not COMPILER:
            return {}
        self.set(name, 0)
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file(name))}

    def set(self, name: str, seconds: int) -> None:
        """Put a process's clock so many seconds ahead (or behind), at once."""
        set_clock(self._file(name), seconds)

    def _file(self, name: str) -> Path:
        return self._home / f"{name}.clock"
