"""Wake-ups where there is no Redis: over a real Postgres, sent by themselves after the commit, heard on one session."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from django.db import connection, transaction

from jobs.own_session import own_session
from jobs.telemetry import outage
from jobs.wakeups import Listener, PullNotifier, Sleep, listener, sender, wake_beats, wake_pull_workers
from jobs.wakeups.channel import COALESCE_SECONDS, PostgresChannel, our_channel
from jobs.wakeups.sender import Sender
from stage.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
#: No test waits this long: only a wake-up ends such a sleep.
LONG = 60.0


@pytest.fixture
def channel() -> PostgresChannel:
    """A channel that no other test publishes on."""
    return PostgresChannel(f"carillon_wake_{uuid4().hex}")


@pytest.fixture
def no_redis(settings: Any) -> None:
    settings.REDIS_URL = ""
    sender._sender.cache_clear()


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[PostgresChannel], Listener]]:
    """Listeners that listen already, and whose first look is over."""
    with ExitStack() as exits:

        def listen(to: PostgresChannel) -> Listener:
            monkeypatch.setattr(listener, "our_channel", lambda *_: to)
            monkeypatch.setattr(listener, "QUIET_SECONDS", 0.25)  # its thread ends just as soon
            found = Listener()
            exits.callback(lambda: wait_until(lambda: not found._thread.is_alive(), 30, what="its end"))
            exits.callback(found.close)
            found.listen()
            wait_until(found.heard, 30, what="the first look")
            return found

        yield listen


@pytest.fixture
def nap(listening: Callable[[PostgresChannel], Listener], channel: PostgresChannel) -> Iterator[Sleep]:
    """A beat's sleep that listens to ``channel``; no signal comes."""
    signals, other = socket.socketpair()
    with signals, other:
        yield Sleep(signals=signals.fileno(), listener=listening(channel))


class TestOurChannel:
    def test_is_postgres_own_where_there_is_no_redis(self, no_redis: None) -> None:
        assert our_channel() == PostgresChannel("carillon_wake")
        assert our_channel("pull") == PostgresChannel("carillon_pull")


class TestSender:
    def test_notifies_in_no_transaction_that_writes(
        self, no_redis: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A commit that notifies holds a lock that all others wait for."""
        said: list[bool] = []
        publish = Sender._publish

        def noted(sending: Sender) -> None:
            said.append(connection.in_atomic_block)
            publish(sending)

        monkeypatch.setattr(Sender, "_publish", noted)
        with transaction.atomic():
            wake_beats()
            assert said == []
        assert said == [False]
        with transaction.atomic():
            wake_beats()
            transaction.set_rollback(True)
        assert said == [False]

    def test_sends_no_more_than_the_listeners_could_act_on(self, channel: PostgresChannel) -> None:
        sending, began = Sender(channel), time.monotonic()
        for _ in range(2000):
            sending.send()
        assert sending.counts["sent"] <= 1 + (time.monotonic() - began) / COALESCE_SECONDS
        assert sending.counts["sent"] + sending.counts["spared"] == 2000

    def test_never_raises_and_keeps_silent_while_postgres_is_away(
        self, channel: PostgresChannel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log, sending = Mock(), Sender(channel)
        monkeypatch.setattr(outage, "_log", log)
        connection.ensure_connection()
        with own_session(timeout_seconds=5) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
        wait_until(lambda: sending.send() or sending.counts["lost"], 30, what="a wake-up that is lost")
        sending.send()
        assert sending.counts["lost"] == 2
        assert [call.args[0] for call in log.warning.call_args_list] == ["wake-ups cannot be sent"]
        connection.close()
        sending._silent_until = 0.0
        sending.send()
        assert sending.counts["sent"] >= 1


class TestListener:
    def test_keeps_channels_apart(
        self, listening: Callable[[PostgresChannel], Listener], channel: PostgresChannel
    ) -> None:
        other = channel._replace(name=f"{channel.name}_other")
        ours, theirs = listening(channel), listening(other)
        Sender(channel).send()
        wait_until(ours.heard)
        Sender(other).send()
        wait_until(theirs.heard)
        assert not ours.heard()

    def test_listens_again_when_its_session_was_ended_and_looks_for_what_it_missed(
        self,
        listening: Callable[[PostgresChannel], Listener],
        channel: PostgresChannel,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(listener, "RECONNECT_SECONDS", 0.02)
        log = Mock()
        monkeypatch.setattr(outage, "_log", log)
        found = listening(channel)
        with own_session(timeout_seconds=5) as other:
            ended = other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database() AND query IN (%s, 'SELECT 1')",
                [f'LISTEN "{channel.name}"'],
            ).fetchall()
        assert ended
        wait_until(found.heard, 30, what="the look after it")
        Sender(channel).send()
        wait_until(found.heard)
        said = [call.args[0] for call in log.warning.call_args_list]
        assert said == ["wake-ups cannot be heard", "wake-ups cannot be heard: over"]


class TestSleep:
    def test_ends_at_a_wake_up(self, nap: Sleep, channel: PostgresChannel) -> None:
        began = time.monotonic()
        Sender(channel).send()
        assert nap(LONG, listening=True) is False
        assert time.monotonic() - began < LONG

    def test_sleeps_through_nothing_that_was_committed(self, nap: Sleep, channel: PostgresChannel) -> None:
        """Two commits, however close: a turn begins after the second one, though its wake-up may have been left out."""
        committed = seen = 0
        sending, looked = Sender(channel), threading.Event()

        def all_seen() -> bool:
            return seen == committed

        def commit() -> None:
            nonlocal committed
            for trial in range(100):
                committed += 1
                sending.send()
                looked.wait(COALESCE_SECONDS * trial / 75)
                committed += 1
                sending.send()
                wait_until(all_seen, LONG)
            connection.close()

        committing = threading.Thread(target=commit)
        committing.start()
        while seen < 200:
            began = time.monotonic()
            nap(LONG / 10, listening=True)
            assert time.monotonic() - began < LONG / 10, f"slept through one: {seen} of {committed}"
            seen = committed
        committing.join()
        assert 0 < sending.counts["spared"] < 100


class TestPullWorkers:
    def test_that_wait_are_woken(self, no_redis: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listener, "QUIET_SECONDS", 0.25)
        notifier = PullNotifier()
        heard = notifier.wait(heard=0, seconds=30)  # that it listens now
        wake_pull_workers()
        assert notifier.wait(heard=heard, seconds=30) == heard + 1
        notifier.close()
        wait_until(lambda: not notifier._thread.is_alive(), 30, what="its end")
