"""The disk Postgres is on: a file system in memory, small enough to be filled, where one may be mounted.

Filling it writes nothing: the file system is told that it is no larger than its contents.
"""

import os
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

#: More than a long run's rows and write-ahead log; only the used part takes memory.
SIZE_BYTES = 12 << 30
BLOCK_BYTES = 4096


@cache
def may_mount() -> bool:
    """Whether this process may mount file systems, found out by doing so."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory(prefix="carillon-mount-") as place:
        disk = Disk(Path(place), fillable=True)
        try:
            disk.__enter__()
        except (OSError, subprocess.CalledProcessError):
            return False
        disk.__exit__()
        return True


class Disk:
    """A directory; ``fillable``: one that ``fill`` can leave without room. A context manager."""

    def __init__(self, path: Path, *, fillable: bool) -> None:
        self.path, self.fillable = path, fillable

    def __enter__(self) -> "Disk":
        self.path.mkdir(mode=0o700, exist_ok=True)
        if self.fillable:
            _mount("-t", "tmpfs", "-o", f"size={SIZE_BYTES},mode=700", "carillon-chaos", str(self.path))
        return self

    def __exit__(self, *_: object) -> None:
        if self.fillable:
            # Lazily: a process that still has a file open there must not keep it.
            subprocess.run(["umount", "-l", str(self.path)], check=False, capture_output=True)

    def fill(self) -> None:
        """Leave no room for another block. Raises ``CalledProcessError`` when it cannot be done."""
        for _ in range(20):  # it grows while it is measured
            found = os.statvfs(self.path)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            with suppress(subprocess.CalledProcessError):
                self._resize(used)
                return
        self._resize(used + BLOCK_BYTES)

    def free(self) -> None:
        """Give back as much room as in the beginning."""
        self._resize(SIZE_BYTES)

    def _resize(self, size: int) -> None:
        _mount("-o", f"remount,size={size}", str(self.path))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
