"""A pooler between clients and Postgres, as PgBouncer is one: by session or by transaction, and without ``options``.

It gives a client a server connection when needed, the one last given back first. It takes it back at the end of the
session or of the transaction. It knows enough of the protocol for clients that are trusted.
"""

import socket
import struct
import threading
from pathlib import Path

Message = tuple[bytes, bytes]


def read(stream: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = stream.recv(size - len(got))
        if not more:
            raise ConnectionError
        got += more
    return got


def message(stream: socket.socket) -> Message:
    kind = read(stream, 1)
    length = read(stream, 4)
    return kind, kind + length + read(stream, struct.unpack("!I", length)[0] - 4)


class Server:
    """A connection to Postgres, and its greeting."""

    def __init__(self, path: Path, startup: bytes) -> None:
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(str(path))
        self.stream.sendall(startup)
        self.greeting, _ = self.until_ready()

    def until_ready(self) -> tuple[bytes, bytes]:
        """The answer up to ReadyForQuery, and whether a transaction is open (``I``: none)."""
        answered = b""
        while True:
            kind, whole = message(self.stream)
            answered += whole
            if kind == b"Z":
                return answered, whole[-1:]
            assert not (kind == b"R" and whole[5:9] != bytes(4)), "the server asks for a password"


class Pooler:
    """``asked``: the messages of clients after their start, one entry a round trip."""

    def __init__(self, postgres: Path, *, by_transaction: bool) -> None:
        self._postgres, self._by_transaction = postgres, by_transaction
        self._free: list[Server] = []
        self.asked: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # this ends the wait of its thread; closing alone would not
        self._listener.close()
        for server in self._free:
            server.stream.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        held: Server | None = None
        try:
            startup = self._startup(client)
            if b"\0options\0" in startup:
                error = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
                client.sendall(b"E" + struct.pack("!I", len(error) + 4) + error)
                return
            held = self._take(startup)
            client.sendall(held.greeting)
            while True:
                if self._by_transaction and held:
                    self._free.append(held)
                    held = None
                request = self._request(client)
                held = held or self._take(startup)
                held.stream.sendall(request)
                answer, status = held.until_ready()
                client.sendall(answer)
                while status != b"I" and self._by_transaction:
                    held.stream.sendall(self._request(client))
                    answer, status = held.until_ready()
                    client.sendall(answer)
        except ConnectionError:
            return
        finally:
            client.close()
            if held:
                held.stream.close()

    def _take(self, startup: bytes) -> Server:
        return self._free.pop() if self._free else Server(self._postgres, startup)

    @staticmethod
    def _startup(client: socket.socket) -> bytes:
        while True:
            length = read(client, 4)
            body = read(client, struct.unpack("!I", length)[0] - 4)
            if struct.unpack("!I", body[:4])[0] not in (80877103, 80877104):  # TLS, GSSAPI
                return length + body
            client.sendall(b"N")

    def _request(self, client: socket.socket) -> bytes:
        """Messages up to the one that asks for an answer."""
        sent = b""
        while True:
            kind, whole = message(client)
            if kind == b"X":
                raise ConnectionError
            sent += whole
            if kind in (b"Q", b"S"):
                self.asked.append(sent)
                return sent
