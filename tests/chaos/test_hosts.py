"""Hosts of a fault run: what one of them reaches, connected and cut off."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from chaos.stage.hosts import Host, Network, may_have_hosts
from stage.waiting import wait_until

pytestmark = pytest.mark.skipif(not may_have_hosts(), reason="network namespaces cannot be made here")

#: Prints the error number with which a connection fails: no port of a host is open.
CALL = """
import socket, sys
connection = socket.socket()
connection.settimeout(0.5)
print(connection.connect_ex((sys.argv[1], 9)))
"""
REFUSED, UNREACHABLE, NO_ANSWER = str(errno.ECONNREFUSED), str(errno.ENETUNREACH), str(errno.EAGAIN)


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(["one", "two"]) as made:
        yield made


def called(host: Host, address: str) -> str:
    """The answer to a process on the host that calls an address."""
    with host.entered():
        done = subprocess.run(
            [sys.executable, "-c", CALL, address], capture_output=True, text=True, check=True
        )
    return done.stdout.strip()


def test_each_reaches_the_others_and_the_outside(network):
    one, two = network.hosts.values()
    assert [called(one, two.address), called(two, one.address)] == [REFUSED] * 2
    assert called(one, network.outside) == REFUSED


def test_one_whose_switch_drops_everything_hears_nothing_and_the_others_go_on(network):
    one, two = network.hosts.values()
    network.set_port("one", passes=False)
    assert [called(one, two.address), called(two, one.address)] == [NO_ANSWER] * 2
    assert called(two, network.outside) == REFUSED
    network.set_port("one", passes=True)
    # A call may still fail for a second where the kernel has given a neighbour up.
    wait_until(
        lambda: [called(one, two.address), called(two, one.address)] == [REFUSED] * 2,
        10,
        what="both to answer",
    )


def test_one_whose_card_is_off_fails_at_once(network):
    one, two = network.hosts.values()
    one.set_card(up=False)
    assert [called(one, two.address), called(two, one.address)] == [UNREACHABLE, NO_ANSWER]
    one.set_card(up=True)
    assert [called(one, two.address), called(two, one.address)] == [REFUSED] * 2


def test_none_is_left_afterwards_and_the_test_is_where_it_was():
    def cards() -> set[str]:
        return {name for _, name in socket.if_nameindex()}

    before = os.readlink("/proc/thread-self/ns/net")
    with Network(["one"]) as network:
        assert network.card in cards()
    assert network.card not in cards()
    assert os.readlink("/proc/thread-self/ns/net") == before
