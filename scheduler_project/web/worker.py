"""The gunicorn worker of the web: like ``gthread``, but threads serve only whole requests.

gthread reads heads and bodies in its threads, without a time limit: as many half-sent requests as there are threads
stop everything. Here the event loop reads them, in a bounded waiting room (``room``), and a thread takes up whole
requests (``intake``). The thread gets those bytes and no others, so a caller that leaves bytes out cannot block it.
``/livez`` has a thread of its own and always answers. The calls of one key take up a share of the threads (``turns``),
in bounded lines; a call whose caller has left is taken out of its line. An answer that its caller does not read is
given up after ``SEND_SECONDS``.

gthread's accepting, keeping alive and closing are replaced; its threads, its stopping, and gunicorn's parser,
supervision and signals are used as they are. TLS is the proxy's business.
"""

import errno
import json
import resource
import selectors
import socket
import struct
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any

from django.urls import get_resolver
from gunicorn import http
from gunicorn.http.errors import NoMoreData
from gunicorn.workers.gthread import TConn, ThreadWorker

from scheduler_project.processes import collector, processors
from scheduler_project.web.forwarded import trusted_proxies
from scheduler_project.web.intake import Intake
from scheduler_project.web.room import Bounds, Room
from scheduler_project.web.turns import Bounds as Lines
from scheduler_project.web.turns import Share, Turn, Turns, Whose, whose

#: The time from the first byte, or from the connection, to the end of the head; then to the end of the body.
HEAD_SECONDS, BODY_SECONDS = 10.0, 30.0
#: How long a write may find no room, which means that the caller does not read.
SEND_SECONDS = 10
#: How long a connection that is being ended may still send, so that its caller reads the answer before the end.
CLOSE_SECONDS = 2.0
SWEEP_SECONDS = 0.5
#: How often a process looks for late starts while one key alone keeps it busy, and how long it holds to what it found.
LOOK_EVERY_SECONDS, LATE_SECONDS = 1.0, 2.0
#: How often it says so in the log.
TELL_SECONDS = 60.0
READ_BYTES = 64 * 1024
#: How long a thread that computes may keep the others waiting for the interpreter. A request hands the interpreter over
#: some twenty times. At the usual 5 ms all requests wait for the event loop, through which each request goes twice.
#: Each waiting thread wakes up this often to ask for the interpreter: at 0.5 ms the waiting threads kept the thread
#: that had it from the processor.
SWITCH_SECONDS = 0.002
#: The number of open files that connections leave for the rest of the process.
OTHER_FILES = 200
_LIVEZ = (b"GET /livez ", b"HEAD /livez ")
_GONE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EAGAIN, errno.ETIMEDOUT)
_LEAVE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: After this time a call that found its key's line full may come again.
FULL_SECONDS = 2
_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def _refusal(status: HTTPStatus, detail: str) -> bytes:
    """A problem document as the API's (RFC 9457), for a call that no thread has seen."""
    kind = status.phrase.lower().replace(" ", "-")
    problem = {
        "type": f"urn:carillon:problem:{kind}",
        "title": status.phrase,
        "status": status,
        "detail": detail,
    }
    body = json.dumps(problem)
    return (
        f"HTTP/1.1 {status} {status.phrase}\r\nConnection: close\r\nRetry-After: {FULL_SECONDS}\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode("ascii")


_FULL = {
    Turn.KEY_FULL: _refusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        "Too many calls of this key, or bytes of them, wait here. Nothing was done: send fewer at once.",
    ),
    Turn.ALL_FULL: _refusal(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Too many calls are waiting at this server. Nothing was done: try again.",
    ),
}


class _Answers(threading.local):
    """Whether a thread's answer has refused the call for lack of room."""

    refused = False


_answers = _Answers()


def _noting_refusals(application: Any) -> Any:
    def noting(environ: Any, start_response: Any) -> Any:
        def start(status: str, *rest: Any) -> Any:
            _answers.refused = status.startswith("429")
            return start_response(status, *rest)

        return application(environ, start)

    return noting


class Caller(TConn):
    """A connection: the bytes that it has sent, and whether the worker only waits for its end."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.intake = Intake()
        self.is_ending = False
        self.whose: Whose | None = None
        #: For its request that ended last: seconds of processor and of waiting for one, and whether it was refused.
        self.computed = self.delayed = 0.0
        self.refused = False
        self.initialized = True
        # A write that finds no room fails after this time; reads never block here.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))

    @property
    def address(self) -> str:
        return self.client[0] if isinstance(self.client, tuple) else ""

    def has_gone(self) -> bool:
        """Whether it has closed, or sends no more. An HTTP client that waits for an answer does neither."""
        try:
            return not self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


class Worker(ThreadWorker):
    wsgi: Any

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        if cfg.is_ssl:
            raise ValueError("TLS is for a proxy in front: this server does not speak it.")

    def init_process(self) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        lines = Lines()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - OTHER_FILES - lines.requests_in_all
        most = min(self.cfg.worker_connections, files)
        self.room: Room[Caller] = Room(Bounds(in_all=max(1, most - self.cfg.threads)))
        # Room is made by sending other connections away: accepting never stops.
        self.worker_connections: int = 1 << 30
        self.livez_pool = ThreadPoolExecutor(max_workers=1)
        threads = self.cfg.threads
        # A key's claims and streams have places of their own: half of the threads, less some that others need.
        share = Share(
            general=max(1, threads // 4), heavy=max(1, threads // 16), waiting=max(2, threads // 2 - 3)
        )
        self.turns: Turns[Caller] = Turns(share, lines)
        self._swept_at = self._look_at = 0.0
        self._told_at = -TELL_SECONDS
        super().init_process()

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self.wsgi = _noting_refusals(self.wsgi)
        # Django loads these with the first request.
        get_resolver().url_patterns  # noqa: B018
        from jobs.engine.activity import WRITER  # these imports need Django's settings
        from jobs.store import replica
        from scheduler_project.web import presence

        WRITER.start()
        presence.announce()
        replica.begin()
        collector.spare()

    # Called by gthread's loop.

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        super().wait_for_and_dispatch_events(min(timeout, self.turns.seconds_of_rest(now=time.monotonic())))
        self._take_up_in_turn(self.turns.rested(now=time.monotonic()))

    def accept(self, listener: socket.socket) -> None:
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EMFILE, errno.ENFILE):
                raise
            return
        self.nr_conns += 1
        caller = Caller(self.cfg, sock, client, listener.getsockname())
        self._wait(caller, HEAD_SECONDS)
        self._read(caller)

    def murder_pending(self) -> None:
        now = time.monotonic()
        if now < self._swept_at + SWEEP_SECONDS:
            return
        self._swept_at = now
        for caller in self.room.overdue(now):
            self._send_away(caller)

    def murder_keepalived(self, force: bool = False) -> None:
        """Connections that are kept alive wait in the room like all others."""
        if force:
            for caller in self.room.overdue(float("inf")):
                self._send_away(caller)

    def _cap_keepalive(self, deadline: float) -> None:
        self.room.hurry(leaves_at=deadline)

    def handle(self, conn: Caller) -> bool:
        """Serve a whole request, in a thread. Returns whether the connection may be kept."""
        request, size = None, len(conn.intake)
        computed_before, delayed_before = time.thread_time(), processors.delayed()
        _answers.refused = False
        try:
            conn.sock.setblocking(True)
            conn.parser = http.get_parser(self.cfg, iter(()), conn.client)
            conn.parser.unreader.unread(conn.intake.take())
            request = next(conn.parser)
            return bool(self._keepalive_after(conn, self.handle_request(request, conn)))
        except (NoMoreData, StopIteration) as error:
            self.log.debug("Closing connection. %s", error)
        except OSError as error:
            if error.errno not in _GONE:
                self.log.exception("Socket error processing request.")
        except Exception as error:  # noqa: BLE001 gunicorn itself answers the requests that it refuses
            self.handle_error(request, conn.sock, conn.client, error)
        finally:
            del request
            collector.note_read(size)
            conn.computed = time.thread_time() - computed_before
            conn.delayed = processors.delayed() - delayed_before
            conn.refused = _answers.refused
        return False

    def finish_request(self, conn: Caller, fs: "Future[bool]") -> None:
        of, conn.whose = conn.whose, None
        if of is not None:
            now = time.monotonic()
            following = self.turns.end(
                of, now=now, computed=conn.computed, delayed=conn.delayed, refused=conn.refused
            )
            self._take_up_in_turn(following)
            if now >= self._look_at and self.turns.is_unopposed(of, now=now):
                self._look_at = now + LOOK_EVERY_SECONDS
                self.tpool.submit(self._look_for_late_starts)
        if fs.cancelled() or fs.exception() is not None or not fs.result():
            self._end(conn)
            return
        rest = conn.parser.unreader.take_buffered()
        conn.parser = None
        conn.sock.setblocking(False)
        self._wait(conn, HEAD_SECONDS if rest else self.cfg.keepalive)
        if rest:
            self._feed(conn, rest)

    # The waiting room.

    def _wait(self, caller: Caller, seconds: float) -> None:
        leaves_at = time.monotonic() + seconds
        is_shared = trusted_proxies().holds(caller.address)
        left = self.room.enter(caller, address=caller.address, leaves_at=leaves_at, is_shared=is_shared)
        self.poller.register(caller.sock, selectors.EVENT_READ, partial(self._on_readable, caller))
        for other in left:
            self._send_away(other)

    def _on_readable(self, caller: Caller, _: Any) -> None:
        # Another event of the same round may have sent this caller away.
        if caller in self.room:
            self._read(caller)

    def _read(self, caller: Caller) -> None:
        try:
            data = caller.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.room.leave(caller)
            self._drop(caller)
        elif not caller.is_ending:
            self._feed(caller, data)

    def _feed(self, caller: Caller, data: bytes) -> None:
        intake = caller.intake
        if not len(intake):
            self.room.stay(caller, leaves_at=time.monotonic() + HEAD_SECONDS)
        had_head = intake.head_is_whole
        intake.feed(data)
        if intake.whole:
            self.room.leave(caller)
            self.poller.unregister(caller.sock)
            self.enqueue_req(caller)
            return
        for other in self.room.note_bytes(caller, len(intake)):
            self._send_away(other)
        if intake.head_is_whole and not had_head:
            self.room.stay(caller, leaves_at=time.monotonic() + BODY_SECONDS)
            if intake.awaits_leave:
                self._say(caller, _LEAVE)

    def enqueue_req(self, conn: Caller) -> None:
        if conn.intake.first_line.startswith(_LIVEZ):
            self._take_up(conn, self.livez_pool)
            return
        conn.whose = whose(conn.intake.head)
        turn, now = Turn.NOW, time.monotonic()
        if conn.whose is None:
            self.turns.note("", now=now)
        else:
            turn = self.turns.begin(conn, conn.whose, held=len(conn.intake), now=now)
        if turn is Turn.NOW:
            self._take_up(conn, self.tpool)
        elif turn is not Turn.LATER:
            self._say(conn, _FULL[turn])
            self._end(conn)

    def _take_up_in_turn(self, following: list[Caller]) -> None:
        """Callers that have left the line meanwhile are not served: their calls would only keep others waiting."""
        while following:
            caller = following.pop(0)
            if caller.whose is not None and caller.has_gone():
                following += self.turns.end(caller.whose, now=time.monotonic())
                self.nr_conns -= 1
                caller.close()
            else:
                self._take_up(caller, self.tpool)

    def _take_up(self, conn: Caller, pool: ThreadPoolExecutor) -> None:
        future = pool.submit(self.handle, conn)
        future.add_done_callback(lambda done: self.method_queue.defer(self.finish_request, conn, done))

    def _look_for_late_starts(self) -> None:
        """In a thread, while a key alone computes much here. Its calls share processors, or the database, with dispatch
        and workers.
        """
        from jobs.store import db  # these imports need Django's settings
        from jobs.store.insight.usage import late_tenants
        from jobs.telemetry import get_logger

        try:
            # The firings of one tenant may be late by its own doing.
            are_late = late_tenants() > 1
        except db.TRANSIENT as error:
            db.note_away(error, what="late starts")
            db.disconnect()
            return
        if are_late:
            now = time.monotonic()
            until = now + LATE_SECONDS
            if now >= self._told_at + TELL_SECONDS:
                self._told_at = now
                get_logger().info(
                    "keys are held to their share", reason="firings of several tenants start late"
                )
            self.method_queue.defer(partial(self.turns.note_late_starts, until=until))

    # Ends.

    def _send_away(self, caller: Caller) -> None:
        """Close a connection that is out of the room. A connection that had begun a request is told why."""
        if len(caller.intake):
            self._say(caller, _LATE)
        self._drop(caller)

    def _end(self, caller: Caller) -> None:
        """Close after an answer. The caller's further bytes are read for a while, or it might lose the answer."""
        caller.is_ending = True
        try:
            caller.sock.setblocking(False)
            caller.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.nr_conns -= 1
            caller.close()
            return
        self._wait(caller, CLOSE_SECONDS)

    def _drop(self, caller: Caller) -> None:
        self.poller.unregister(caller.sock)
        self.nr_conns -= 1
        caller.close()

    @staticmethod
    def _say(caller: Caller, words: bytes) -> None:
        try:
            caller.sock.send(words, socket.MSG_DONTWAIT)
        except OSError:
            pass  # the caller is gone, or does not read: in both cases it cannot be told
