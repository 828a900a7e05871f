"""Confirms of RabbitMQ, as its channel says them: one by one, many at once, none, and refusals."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.engine.confirms import Confirms, NotConfirmed


class Channel:
    """Says the scripted confirms, one each time that it is asked."""

    def __init__(self) -> None:
        self.events: dict[str, set[Callable[[int, bool], None]]] = {"basic_ack": set(), "basic_nack": set()}
        self.says: list[tuple[str, int, bool]] = []
        self.connection = SimpleNamespace(drain_events=self._drain)
        self.selected = 0

    def confirm_select(self) -> None:
        self.selected += 1

    def _drain(self, timeout: float) -> None:
        if not self.says:
            threading.Event().wait(timeout)
            raise TimeoutError
        event, *said = self.says.pop(0)
        for heard in self.events[event]:
            heard(*said)


@pytest.fixture
def channel() -> Channel:
    return Channel()


@pytest.fixture
def confirms(channel: Any) -> Confirms:
    found = Confirms(channel)
    for _ in range(4):
        found.expect()
    return found


def test_are_asked_for_once(confirms: Confirms, channel: Channel) -> None:
    assert channel.selected == 1


def test_are_waited_for_until_all_are_there_in_any_order(confirms: Confirms, channel: Channel) -> None:
    channel.says = [("basic_ack", 4, False), ("basic_ack", 2, True), ("basic_ack", 3, False)]
    confirms.wait(seconds=60)
    assert channel.says == []
    confirms.expect()
    channel.says = [("basic_ack", 5, False)]
    confirms.wait(seconds=60)


def test_that_do_not_come_are_given_up(confirms: Confirms, channel: Channel) -> None:
    channel.says = [("basic_ack", 3, True)]
    with pytest.raises(NotConfirmed, match="1 messages not confirmed within"):
        confirms.wait(seconds=0.05)


def test_that_say_no_are_no_confirms(confirms: Confirms, channel: Channel) -> None:
    channel.says = [("basic_nack", 2, True), ("basic_ack", 4, True)]
    with pytest.raises(NotConfirmed, match="2 messages refused"):
        confirms.wait(seconds=60)
