"""Hosts of a run: network namespaces, each with one cable to a switch, which has a namespace of its own.

The stage itself stands outside, at the end of one more cable. No namespace has a name, so none outlives the run,
however it ends. Linux, root and iproute2 are needed.
"""

import ctypes
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from scheduler_project.embedded.redis import EmbeddedRedis

_CLONE_NEWNET = 0x40000000
_HERE = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A network of its own: that of the thread which makes this object."""

    def __init__(self) -> None:
        self._file = os.open(_HERE, os.O_RDONLY)

    def close(self) -> None:
        os.close(self._file)

    @property
    def path(self) -> str:
        """Its name for ``ip``, as long as it is not closed."""
        return f"/proc/{os.getpid()}/fd/{self._file}"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Processes that this thread starts meanwhile, and their children, live there."""
        before = Namespace()
        try:
            _must(_libc.setns(self._file, _CLONE_NEWNET))
            yield
        finally:
            _must(_libc.setns(before._file, _CLONE_NEWNET))
            before.close()

    def ip(self, *arguments: str) -> None:
        """Run ``ip`` there; raises ``OSError`` with what it said."""
        self.run("ip", *arguments)

    def run(self, *argv: str) -> None:
        """Run a program there; raises ``OSError`` with what it said."""
        with self.entered():
            done = subprocess.run(argv, check=False, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")


class NewNamespace(Namespace):
    """One without interfaces; its loopback address works."""

    def __init__(self) -> None:
        before = Namespace()
        try:
            _must(_libc.unshare(_CLONE_NEWNET))
            super().__init__()
            _must(_libc.setns(before._file, _CLONE_NEWNET))
        finally:
            before.close()
        self.ip("link", "set", "lo", "up")


class Host(NewNamespace):
    """A machine with one network card; ``cidr`` is the network that all hosts are in."""

    CARD = "eth0"

    def __init__(self, address: str, cidr: str) -> None:
        super().__init__()
        self.address, self.cidr = address, cidr

    def set_card(self, up: bool) -> None:
        """Switch its network card on or off. Off, each call to another host fails at once."""
        self.ip("link", "set", self.CARD, "up" if up else "down")


class HostedRedis(EmbeddedRedis):
    """Redis that serves the other hosts by TCP, too."""

    def __init__(self, *, data_dir: Path, host: Host) -> None:
        super().__init__(data_dir=data_dir)
        self._host = host

    def command(self) -> tuple[list[str], Mapping[str, Any]]:
        argv, arguments = super().command()
        serving = ("--bind", self._host.address, "--port", "6379", "--protected-mode", "no")
        return [*argv, *serving], arguments

    def _launch(self) -> None:
        with self._host.entered():
            super()._launch()


class Network:
    """``with Network(("one", "two")) as network``: hosts by their names, and the stage outside, at ``outside``."""

    def __init__(self, names: Sequence[str]) -> None:
        #: Of the range that RFC 2544 keeps for tests of networks; two runs at once seldom draw the same.
        self._prefix = f"198.18.{secrets.randbelow(255)}"
        self.cidr, self.outside = f"{self._prefix}.0/24", f"{self._prefix}.1"
        #: Outside, the end of the stage's own cable.
        self.card = f"carillon{secrets.token_hex(3)}"
        self._names = names
        self._exits = ExitStack()
        self.hosts: dict[str, Host] = {}

    def __enter__(self) -> Self:
        with ExitStack() as made:
            outside = Namespace()
            made.callback(outside.close)
            self._switch = NewNamespace()
            made.callback(self._switch.close)
            self._switch.ip("link", "add", "switch", "type", "bridge")
            self._switch.ip("link", "set", "switch", "up")
            self._connect("outside", self.card, outside)
            made.callback(outside.ip, "link", "del", self.card)
            outside.ip("addr", "add", f"{self.outside}/24", "dev", self.card)
            outside.ip("link", "set", "dev", self.card, "up")
            for n, name in enumerate(self._names, start=2):
                host = self.hosts[name] = Host(f"{self._prefix}.{n}", self.cidr)
                made.callback(host.close)
                self._connect(name, host.CARD, host)
                host.ip("addr", "add", f"{host.address}/24", "dev", host.CARD)
                host.set_card(True)
            self._exits = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def _connect(self, port: str, card: str, to: Namespace) -> None:
        """Lay a cable from a port of the switch to a new card."""
        self._switch.ip("link", "add", "name", port, "type", "veth", "peer", "name", card, "netns", to.path)
        self._switch.ip("link", "set", "dev", port, "master", "switch", "up")

    def set_port(self, name: str, passes: bool) -> None:
        """Let the switch pass on what comes from and goes to a host, or drop it in silence."""
        forwarding, disabled = "3", "0"
        self._switch.run("bridge", "link", "set", "dev", name, "state", forwarding if passes else disabled)


@cache
def may_have_hosts() -> bool:
    """Whether this machine allows it, found out by doing so."""
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("bridge")):
        return False
    try:
        with Network(["one"]) as network:
            network.set_port("one", passes=False)
    except OSError:
        return False
    return True


def _must(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
