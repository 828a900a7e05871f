"""Wake-ups over a real Redis: one is enough, many cause few turns, and a Redis that is away costs next to nothing."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.db import connection, transaction

from jobs.handlers import RetryAfter
from jobs.telemetry import outage
from jobs.wakeups import Listener, Sleep, listener, sender, wake_beats
from jobs.wakeups.channel import COALESCE_SECONDS, Channel, RedisChannel, our_channel
from jobs.wakeups.sender import Sender
from scheduler_project.embedded import paths
from scheduler_project.embedded.redis import EmbeddedRedis
from stage.waiting import wait_until
from tests.engine.conftest import Beat, Perform, queued
from tests.factories import state_of

#: No test waits this long: only a wake-up ends such a sleep.
LONG = 60.0


@pytest.fixture
def channel() -> Channel:
    """A channel that no other test publishes on."""
    return RedisChannel(django_settings.REDIS_URL, f"carillon:wake:tests:{uuid4()}")


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Channel], Listener]]:
    """Listeners that are subscribed already, and whose first look is over."""
    with ExitStack() as exits:

        def listen(to: Channel) -> Listener:
            monkeypatch.setattr(listener, "our_channel", lambda *_: to)
            found = Listener()
            exits.callback(found.close)
            found.listen()
            wait_until(found.heard)
            return found

        yield listen


@pytest.fixture
def nap(listening: Callable[[Channel], Listener], channel: Channel) -> Iterator[Sleep]:
    """A beat's sleep that listens to ``channel``; no signal comes."""
    signals, other = socket.socketpair()
    with signals, other:
        yield Sleep(signals=signals.fileno(), listener=listening(channel))


@pytest.fixture
def redis_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A server that is not started yet."""
    data_dir = Path(tmp_path_factory.mktemp("redis"))
    paths.ensure_data_dir(data_dir)
    paths.reach_sockets(data_dir)
    server = EmbeddedRedis(data_dir=data_dir, ephemeral=True)
    yield server
    server.stop()


@pytest.fixture
def mute() -> Iterator[tuple[Channel, socket.socket]]:
    """A server that accepts every connection and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield RedisChannel(f"redis://127.0.0.1:{server.getsockname()[1]}/0", "x"), server


def said(log: Mock) -> list[str]:
    return [call.args[0] for call in log.warning.call_args_list]


class TestWakeBeats:
    @pytest.fixture
    def sent(self, monkeypatch: pytest.MonkeyPatch) -> list[Channel]:
        """The channels of wake-ups, recorded instead of sent."""
        found: list[Channel] = []
        monkeypatch.setattr(sender, "_sender", lambda to: Mock(send=lambda: found.append(to)))
        return found

    @pytest.mark.django_db(transaction=True)
    def test_sends_after_the_commit_and_not_before(self, sent: list[Channel]) -> None:
        with transaction.atomic():
            wake_beats()
            assert sent == []
        assert sent == [our_channel()]

    @pytest.mark.django_db(transaction=True)
    def test_sends_nothing_for_what_is_rolled_back(self, sent: list[Channel]) -> None:
        with transaction.atomic():
            wake_beats()
            transaction.set_rollback(True)
        assert sent == []

    def test_leaves_to_the_beat_what_it_will_see_by_itself(self, sent: list[Channel], settings: Any) -> None:
        settings.CARILLON = settings.CARILLON.model_copy(update={"max_sleep_ms": 250})
        wake_beats(due_in=timedelta(milliseconds=250))
        assert sent == []
        wake_beats(due_in=timedelta(milliseconds=249))
        wake_beats(due_in=timedelta(seconds=-3))
        assert len(sent) == 2

    @pytest.mark.parametrize("url", ["memory://", "sentinel://one:26379", "amqp://rabbit//"])
    def test_does_without_where_there_is_no_plain_redis(
        self, sent: list[Channel], settings: Any, url: str
    ) -> None:
        settings.REDIS_URL = url
        wake_beats()
        assert sent == []


class TestOurChannel:
    def test_is_another_for_each_database_and_each_of_redis_databases(
        self, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = []
        for url, database in (("redis://r/0", "a"), ("redis://r/1", "a"), ("redis://r", "b")):
            settings.REDIS_URL = url
            monkeypatch.setitem(connection.settings_dict, "NAME", database)
            names.append(our_channel().name)  # type: ignore[union-attr]
        assert names == ["carillon:wake:0:a", "carillon:wake:1:a", "carillon:wake:0:b"]

    def test_keeps_two_deployments_on_one_redis_apart(
        self, listening: Callable[[Channel], Listener], channel: Channel
    ) -> None:
        other = channel._replace(name=f"{channel.name}:other")
        ours, theirs = listening(channel), listening(other)
        Sender(channel).send()
        wait_until(ours.heard)
        Sender(other).send()
        wait_until(theirs.heard)
        assert not ours.heard()


class TestSender:
    def test_sends_no_more_than_the_listeners_could_act_on(self, channel: Channel) -> None:
        sending, began = Sender(channel), time.monotonic()
        for _ in range(2000):
            sending.send()
        assert sending.counts["sent"] <= 1 + (time.monotonic() - began) / COALESCE_SECONDS
        assert sending.counts["sent"] + sending.counts["spared"] == 2000

    def test_neither_raises_nor_tries_again_at_once_while_redis_is_away(
        self, redis_of_our_own: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = Mock()
        monkeypatch.setattr(outage, "_log", log)
        sending = Sender(RedisChannel(paths.embedded_redis_url(redis_of_our_own.data_dir), "x"))
        sending.send()
        client, sending._client = sending._client, Mock()
        sending.send()
        sending._client.publish.assert_not_called()
        sending._client, sending._silent_until = client, 0.0
        sending.send()
        assert (sending.counts["lost"], said(log)) == (3, ["wake-ups cannot be sent"])
        redis_of_our_own.start()
        sending._silent_until = 0.0
        sending.send()
        assert sending.counts["sent"] == 1
        assert said(log) == ["wake-ups cannot be sent", "wake-ups cannot be sent: over"]

    @pytest.mark.usefixtures("hasty_redis")
    def test_keeps_silent_the_longer_the_longer_redis_kept_it_waiting(
        self, mute: tuple[Channel, socket.socket]
    ) -> None:
        sending, began = Sender(mute[0]), time.monotonic()
        sending.send()
        waited = time.monotonic() - began
        assert sender.TIMEOUT_SECONDS <= waited < 5
        assert sending._silent_until - began > 20 * sender.TIMEOUT_SECONDS
        sending.send()
        assert sending.counts == {"lost": 2}

    def test_is_nobodys_trouble_when_redis_hangs(self, mute: tuple[Channel, socket.socket]) -> None:
        """While one thread waits for an answer, the others go on."""
        sending, began = Sender(mute[0]), time.monotonic()
        with sending._sending:
            sending.send()
        assert (sending.counts, time.monotonic() - began < LONG) == ({}, True)

    def test_sends_once_more_for_whoever_came_while_it_was_sending(self, channel: Channel) -> None:
        """The message may have been heard already when the later transaction committed."""
        sending = Sender(channel)

        def meanwhile(*_: Any) -> None:
            if sending._client.publish.call_count == 1:
                sending._silent_until = 0.0  # the publish takes long
                sending.send()

        sending._client = Mock(publish=Mock(side_effect=meanwhile))
        sending.send()
        assert sending._client.publish.call_count == 2


class TestListener:
    def test_listens_again_after_redis_was_away_and_looks_for_what_it_missed(
        self,
        redis_of_our_own: EmbeddedRedis,
        listening: Callable[[Channel], Listener],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(listener, "RECONNECT_SECONDS", 0.02)
        log = Mock()
        monkeypatch.setattr(outage, "_log", log)
        channel = RedisChannel(paths.embedded_redis_url(redis_of_our_own.data_dir), "x")
        redis_of_our_own.start()
        found = listening(channel)
        redis_of_our_own.stop()
        wait_until(lambda: log.warning.called)
        redis_of_our_own.start()
        wait_until(found.heard)
        Sender(channel).send()
        wait_until(found.heard)
        assert said(log)[0] == "wake-ups cannot be heard"
        assert said(log)[-1] == "wake-ups cannot be heard: over"
        assert len(said(log)) == 2

    def test_leaves_a_server_that_answers_nothing(
        self, mute: tuple[Channel, socket.socket], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listener, "QUIET_SECONDS", 0.05)
        monkeypatch.setattr(listener, "RECONNECT_SECONDS", 0.02)
        channel, server = mute
        server.settimeout(10)
        monkeypatch.setattr(listener, "our_channel", lambda *_: channel)
        found = Listener()
        found.listen()
        with server.accept()[0], server.accept()[0]:
            assert not found.heard()
        found.close()

    def test_keeps_a_quiet_connection_whose_server_answers(
        self,
        listening: Callable[[Channel], Listener],
        channel: Channel,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(listener, "QUIET_SECONDS", 0.25)
        connects: list[Channel] = []
        connect = RedisChannel.connect
        monkeypatch.setattr(
            RedisChannel, "connect", lambda self, **how: connects.append(self) or connect(self, **how)
        )
        found = listening(channel)
        select.select([found], [], [], 1.0)  # four times as long as QUIET_SECONDS
        assert not found.heard()
        assert connects == [channel]


class TestSleep:
    def test_ends_at_a_wake_up(self, nap: Sleep, channel: Channel) -> None:
        began = time.monotonic()
        Sender(channel).send()
        assert nap(LONG, listening=True) is False
        assert time.monotonic() - began < LONG

    def test_is_followed_by_two_turns_where_a_wake_up_comes_after_a_silence(
        self, nap: Sleep, channel: Channel
    ) -> None:
        """The first turn finds the work. The second finds work that was committed while the sender kept silent."""
        threading.Timer(0.05, Sender(channel).send).start()
        began = time.monotonic()
        for _ in range(2):
            nap(LONG, listening=True)
        assert time.monotonic() - began < LONG
        # The control: there are no more turns than these. A wake-up that came during a turn gets the second turn alone.
        nap._listener._writer.send(b"\0")
        nap(LONG, listening=True)
        began = time.monotonic()
        nap(0.05, listening=True)
        assert time.monotonic() - began >= 0.05

    def test_does_not_end_at_a_wake_up_while_another_leads(self, nap: Sleep, channel: Channel) -> None:
        Sender(channel).send()
        wait_until(lambda: nap._wait(0, nap._listener))
        began = time.monotonic()
        nap(0.05, listening=False)
        assert time.monotonic() - began >= 0.05

    def test_turns_a_burst_into_few_turns(self, nap: Sleep, channel: Channel) -> None:
        publisher, began, turns = channel.connect(timeout_seconds=5), time.monotonic(), 0
        with publisher, publisher.pipeline(transaction=False) as pipeline:
            for _ in range(3000):
                pipeline.publish(channel.name, b"")
            burst = threading.Thread(target=pipeline.execute)
            burst.start()
            while burst.is_alive() or nap._listener.heard():
                nap(0.05, listening=True)
                turns += 1
            burst.join()
        assert turns <= 2 + (time.monotonic() - began) / COALESCE_SECONDS

    def test_sleeps_through_nothing_that_was_committed(self, nap: Sleep, channel: Channel) -> None:
        """Two commits, however close: a turn begins after the second one, though its wake-up may have been left out."""
        committed = seen = 0
        sending, looked = Sender(channel), threading.Event()

        def all_seen() -> bool:
            return seen == committed

        def commit() -> None:
            nonlocal committed
            for trial in range(200):
                committed += 1
                sending.send()
                looked.wait(COALESCE_SECONDS * trial / 150)  # a pause; it may be cut short
                committed += 1
                sending.send()
                wait_until(all_seen, LONG)

        committing = threading.Thread(target=commit)
        committing.start()
        while seen < 400:
            began = time.monotonic()
            nap(LONG / 10, listening=True)
            assert time.monotonic() - began < LONG / 10, f"slept through one: {seen} of {committed}"
            seen = committed
        committing.join()
        assert 0 < sending.counts["spared"] < 200

    def test_looks_again_when_something_due_made_it_turn_too_soon(self, nap: Sleep) -> None:
        nap._listener._writer.send(b"\0")
        assert nap(0.0, listening=True) is False
        began = time.monotonic()
        nap(LONG, listening=True)
        assert time.monotonic() - began < LONG

    def test_gives_way_to_a_signal(self, listening: Callable[[Channel], Listener], channel: Channel) -> None:
        signals, other = socket.socketpair()
        with signals, other:
            other.send(b"\x0f")
            assert Sleep(signals=signals.fileno(), listener=listening(channel))(LONG, listening=True) is True


@pytest.mark.django_db
class TestWhoWakes:
    """Which acts of the engine itself wake the beat. Tests of the actions that wake it are in tests/interfaces."""

    @pytest.fixture
    def woken(self, monkeypatch: pytest.MonkeyPatch) -> Mock:
        woken = Mock()
        monkeypatch.setattr("jobs.engine.worker.finisher.wake_beats", woken)
        return woken

    def test_a_worker_whose_trigger_is_soon_tried_again(
        self, handler: Callable[..., str], perform: Perform, woken: Mock
    ) -> None:
        def again(ctx: Any, payload: Any) -> None:
            raise RetryAfter(timedelta(seconds=0.1))

        policy = {"max_attempts": 2, "backoff": "fixed", "initial_delay_seconds": 0.1, "jitter": "none"}
        trigger = queued(handler(again), retry_policy=policy)
        perform(trigger)
        assert state_of(trigger)[0] == "retrying"
        woken.assert_called_once_with(due_in=timedelta(seconds=0.1))

    def test_not_a_worker_whose_triggers_have_ended(
        self, handler: Callable[..., str], perform: Perform, woken: Mock
    ) -> None:
        perform(queued(handler(lambda ctx, payload: None)))
        woken.assert_not_called()


@pytest.mark.django_db
class TestTheCycle:
    def test_says_whether_it_leads(self, make_beat: Callable[..., Beat]) -> None:
        leader, standby = make_beat(), make_beat()
        leader.turn()
        standby.turn()
        assert (leader.cycle.leading, standby.cycle.leading) == (True, False)
