"""A link's weather, on a server that answers each line with the same line."""

import random
import select
import socket
import socketserver
import threading
import time

import pytest

from chaos.stage.proxy import CHUNKS, DYING_SECONDS, Proxies, Weather
from stage.waiting import wait_until

CHUNK = 65_536


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)


@pytest.fixture
def link(tmp_path):
    """The proxies, with one link to the echo, and its port."""
    path = str(tmp_path / "echo.sock")
    with socketserver.ThreadingUnixStreamServer(path, Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Proxies(rng=random.Random(1)) as proxies:
            yield proxies, proxies.add("beat1", "echo", path)
        server.shutdown()


def connected(port: int, *, patience: float = 5.0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=patience)


def asked(connection: socket.socket) -> bytes:
    connection.sendall(b"hello\n")
    return connection.recv(100)


def is_reset(connection: socket.socket) -> bool:
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except ConnectionError:
        return True


class TestALink:
    def test_leads_to_a_port_as_well(self):
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with Proxies(rng=random.Random(1)) as proxies:
                port = proxies.add("pull1", "web", server.server_address[1])
                with connected(port) as connection:
                    assert asked(connection) == b"hello\n"
            server.shutdown()

    def test_passes_everything_on_in_fair_weather(self, link):
        with connected(link[1]) as connection:
            assert asked(connection) == b"hello\n"

    @pytest.mark.parametrize(
        "hole", [{"hole_up": True}, {"hole_down": True}, {"hole_up": True, "hole_down": True}]
    )
    def test_holds_back_what_falls_into_a_black_hole_and_loses_none_of_it(self, link, hole):
        proxies, port = link
        with connected(port, patience=0.3) as connection:
            assert asked(connection) == b"hello\n"
            proxies.set("beat1", "echo", Weather(**hole))
            with pytest.raises(TimeoutError):
                asked(connection)
            proxies.set("beat1", "echo", Weather())
            connection.settimeout(5)
            assert connection.recv(100) == b"hello\n"

    def test_goes_to_another_server_when_it_is_told_to(self, link, tmp_path):
        proxies, port = link
        path = str(tmp_path / "other.sock")
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            other.listen()
            other.settimeout(5)
            proxies.point("echo", path)
            with connected(port) as connection:
                connection.sendall(b"hello\n")
                assert other.accept()[0].recv(100) == b"hello\n"

    def test_passes_on_more_than_it_holds_back_at_once(self, link):
        proxies, port = link
        count, line = 8 * CHUNKS, bytes(CHUNK) + b"\n"
        with connected(port) as connection:
            assert asked(connection) == b"hello\n"
            proxies.set("beat1", "echo", Weather(hole_up=True))
            sent = []
            sender = threading.Thread(
                target=lambda: sent.extend(connection.sendall(line) for _ in range(count)), daemon=True
            )
            sender.start()
            sender.join(0.5)
            assert sender.is_alive(), "it holds back more than it may"
            proxies.set("beat1", "echo", Weather())
            heard = 0
            while heard < count * len(line):
                got = connection.recv(4 * CHUNK)
                assert got
                heard += len(got)
            assert asked(connection) == b"hello\n"

    def test_keeps_what_was_held_back_in_order(self, link):
        proxies, port = link
        proxies.set("beat1", "echo", Weather(delay=0.05, jitter=0.05))
        lines = b"".join(b"%d\n" % n for n in range(200))
        with connected(port) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for n in range(200):
                connection.sendall(b"%d\n" % n)
            heard = b""
            while len(heard) < len(lines):
                heard += connection.recv(CHUNK)
            assert heard == lines

    def test_ends_with_its_caller(self, link):
        with connected(link[1]) as connection:
            assert asked(connection) == b"hello\n"
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""

    def test_delays(self, link):
        proxies, port = link
        proxies.set("beat1", "echo", Weather(delay=0.1))
        with connected(port) as connection:
            begun = time.monotonic()
            assert asked(connection) == b"hello\n"
            assert time.monotonic() - begun >= 0.2

    def test_delays_what_follows_no_longer(self, link):
        proxies, port = link
        proxies.set("beat1", "echo", Weather(delay=0.5))
        with connected(port) as connection:
            begun = time.monotonic()
            threading.Thread(target=connection.sendall, args=(bytes(5 * CHUNK) + b"\n",)).start()
            heard = 0
            while heard <= 5 * CHUNK:
                heard += len(connection.recv(CHUNK))
            assert 1.0 <= time.monotonic() - begun < 2.5

    def test_refuses_and_listens_at_the_same_port_again(self, link):
        proxies, port = link
        with connected(port) as connection:
            assert asked(connection) == b"hello\n"
            proxies.set("beat1", "echo", Weather(refuse=True))
            with pytest.raises(ConnectionError):
                connected(port)
            with pytest.raises(ConnectionError):
                asked(connection)
        proxies.set("beat1", "echo", Weather())
        with connected(port) as connection:
            assert asked(connection) == b"hello\n"

    def test_resets_what_is_connected(self, link):
        proxies, port = link
        with connected(port) as connection:
            assert asked(connection) == b"hello\n"
            proxies.cut("beat1", "echo")
            with pytest.raises(ConnectionError):
                connection.recv(100)

    def test_resets_a_caller_when_the_server_is_away(self, link, tmp_path):
        port = link[0].add("beat1", "absent", str(tmp_path / "absent.sock"))
        with pytest.raises(ConnectionError), connected(port) as connection:
            connection.recv(100)

    def test_lets_one_connection_in_ten_die_and_no_other(self, link):
        proxies, port = link
        connections = []
        for _ in range(100):  # the echo lets few wait to be accepted
            connections.append(connected(port))
            assert asked(connections[-1]) == b"hello\n"
        proxies.set("beat1", "echo", Weather(dying=0.1))
        wait_until(
            lambda: sum(map(is_reset, connections)) >= 3, timeout=2 * DYING_SECONDS, what="some to die"
        )
        living = [connection for connection in connections if not is_reset(connection)]
        assert len(living) >= 80
        for connection in living[:3]:
            assert asked(connection) == b"hello\n"
        for connection in connections:
            connection.close()
