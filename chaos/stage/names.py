"""Names that hang: ``python -m chaos.stage.names RESOLV_CONF ARGUMENT…`` becomes Python with a resolver of its own.

In a mount namespace of the process alone another file lies over ``/etc/resolv.conf``. So all code that resolves a name,
glibc or a library that asks by itself, asks ``SilentServer``. Names of ``/etc/hosts`` are as they were.
"""

import ctypes
import os
import socket
import sys
from functools import cache
from pathlib import Path

_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
_OVERLAID = b"/etc/resolv.conf"
#: A loopback address that nothing else listens at.
ADDRESS = "127.9.9.9"
PORT = 53


class SilentServer:
    """A name server that takes every question and answers none. A context manager."""

    def __init__(self, resolv_conf: Path) -> None:
        self.resolv_conf = resolv_conf

    def __enter__(self) -> "SilentServer":
        self.resolv_conf.write_text(f"nameserver {ADDRESS}\n")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((ADDRESS, PORT))
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def argv(self, *arguments: str) -> tuple[str, ...]:
        """The arguments that start a process which asks this server."""
        return ("-m", "chaos.stage.names", str(self.resolv_conf), *arguments)


@cache
def may_hang() -> bool:
    """Whether this machine allows it, found out by doing so in a child."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    try:
        _overlay(Path("/etc/hosts"))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind((ADDRESS, PORT))
    except OSError:
        os._exit(1)
    os._exit(0)


def _overlay(resolv_conf: Path) -> None:
    """Lay the file over ``/etc/resolv.conf``. Raises ``OSError`` where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)

    def done(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    done(libc.unshare(_CLONE_NEWNS))
    done(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    done(libc.mount(os.fsencode(resolv_conf), _OVERLAID, None, _MS_BIND, None))


if __name__ == "__main__":
    _overlay(Path(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
