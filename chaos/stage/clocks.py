"""Wall clocks that can be set apart: a library preloaded into each process adds what a file says, in whole seconds.

It takes a C compiler. Without one every clock is the machine's, and fault 10 is left out.
"""

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "clock.c"
COMPILER = shutil.which("cc")


class Clocks:
    """One file a process in ``home``; ``environment`` makes a process look at its own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._library = home / "clock.so"
        if COMPILER:
            command = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl"]
            subprocess.run(command, check=True, capture_output=True)

    def environment(self, name: str) -> dict[str, str]:
        if not COMPILER:
            return {}
        self.set(name, 0)
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file(name))}

    def set(self, name: str, seconds: int) -> None:
        """Put a process's clock so many seconds ahead (or behind), at once."""
        with open(self._file(name), "r+b" if self._file(name).exists() else "wb") as file:
            file.write(struct.pack("l", seconds))

    def _file(self, name: str) -> Path:
        return self._home / f"{name}.clock"
