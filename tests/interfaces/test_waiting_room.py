"""The waiting room of the web server, and its worker's rounds, without a process."""

import socket
from typing import Any
from unittest import mock

import pytest

from scheduler_project.web.room import Bounds, Room
from scheduler_project.web.worker import Worker


def room(**bounds: int) -> Room[str]:
    return Room(Bounds(**bounds))


class TestTheRoom:
    def test_sends_away_who_came_first_of_an_address_and_of_all(self) -> None:
        waiting = room(in_all=4, of_one_address=2)
        assert [waiting.enter(name, address="a", leaves_at=9) for name in "pqr"] == [[], [], ["p"]]
        assert waiting.enter("x", address="b", leaves_at=9) == []
        assert waiting.enter("y", address="c", leaves_at=9) == []
        assert waiting.enter("z", address="d", leaves_at=9) == ["q"]
        assert len(waiting) == 4

    def test_lets_a_proxy_bring_as_many_as_there_is_room_for(self) -> None:
        waiting = room(in_all=4, of_one_address=2)
        left = [waiting.enter(name, address="a", leaves_at=9, is_shared=True) for name in "pqrst"]
        assert left == [[], [], [], [], ["p"]]

    def test_sends_away_who_has_held_bytes_longest_never_who_just_spoke(self) -> None:
        waiting = room(bytes_in_all=100)
        for name in "pqr":
            waiting.enter(name, address=name, leaves_at=9)
        assert waiting.note_bytes("p", 60) == []
        assert waiting.note_bytes("r", 40) == []
        assert waiting.note_bytes("r", 50) == ["p"]
        assert waiting.note_bytes("r", 500) == []
        waiting.leave("r")
        assert waiting.note_bytes("q", 100) == []

    def test_ends_waits_by_the_clock(self) -> None:
        waiting = room()
        for name, at in (("p", 5.0), ("q", 9.0), ("r", 7.0)):
            waiting.enter(name, address="a", leaves_at=at)
        waiting.stay("p", leaves_at=8)
        assert (waiting.overdue(7), len(waiting)) == (["r"], 2)
        waiting.hurry(leaves_at=8)
        assert waiting.overdue(8) == ["p", "q"]


class TestARound:
    @pytest.fixture
    def worker(self) -> Any:
        worker = Worker.__new__(Worker)
        worker.room = Room(Bounds())
        worker.nr_conns = 0
        return worker

    def test_passes_over_whom_it_has_sent_away_itself(self, worker: Any) -> None:
        """The poller first names all readable connections. The first of them may cause the second to be sent away."""
        ours, theirs = socket.socketpair()
        with theirs:
            ours.close()
            worker._on_readable(mock.Mock(sock=ours, is_ending=False), None)
