"""Every address that may not be called, as a literal and behind a name; also addresses that no test machine has.

All connections, wherever they lead, arrive at one listening socket instead. So it would see an address that a check
wrongly let pass, and it does see addresses that may be called.
"""

import socket
from asyncio.selector_events import BaseSelectorEventLoop
from ipaddress import ip_address

import pytest

from jobs.handlers import registry
from tests.handlers.test_egress import PRIVATE, PUBLIC, Listener

REFUSALS = {"address_refused", "bad_url", "invalid_payload"}


@pytest.fixture
def divert(monkeypatch):
    """``divert(port)``: from now on every connection ends there."""
    connect = BaseSelectorEventLoop.sock_connect

    def to(port):
        async def diverted(loop, sock, _):
            host = "::ffff:127.0.0.1" if sock.family == socket.AF_INET6 else "127.0.0.1"
            await connect(loop, sock, (host, port))

        monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", diverted)

    return to


@pytest.fixture
def listener():
    standing = Listener("127.0.0.1")
    yield standing
    standing.close()


def urls_of(monkeypatch, address):
    """The address as a literal, and a name that resolves to that address alone."""
    bare, _, zone = address.partition("%")
    six = ip_address(bare).version == 6
    literal = f"[{bare}{'%25' + zone if zone else ''}]" if six else bare
    family, place = (socket.AF_INET6, (address, 8080, 0, 0)) if six else (socket.AF_INET, (address, 8080))

    def resolve(*_, **__):
        return [(family, socket.SOCK_STREAM, 6, "", place)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return [f"http://{literal}:8080/hook", "http://inside.example:8080/hook"]


class TestAWebhook:
    @pytest.mark.parametrize("address", PRIVATE)
    def test_connects_to_no_refused_address(
        self, run_one, open_runner, make_context, listener, divert, monkeypatch, address
    ):
        urls = urls_of(monkeypatch, address)
        divert(listener.port)
        runner = open_runner(allow=())
        codes = [
            run_one(registry.get("webhook"), make_context(), {"url": url}, runner=runner).error_code
            for url in urls
        ]
        assert set(codes) <= REFUSALS
        assert codes[1] == "address_refused"
        assert listener.connections() == 0

    @pytest.mark.parametrize("address", PUBLIC)
    def test_connects_to_others_so_that_the_socket_would_have_seen_it(
        self, run_one, open_runner, make_context, receiver, divert, monkeypatch, address
    ):
        urls = urls_of(monkeypatch, address)
        divert(receiver.port)
        runner = open_runner(allow=())
        for url in urls:
            assert (
                run_one(registry.get("webhook"), make_context(), {"url": url}, runner=runner).http_status
                == 200
            )
        assert len(receiver.requests) == 2
