"""Turns of requests for a web process's threads, by key."""

import random
from collections import Counter, deque

import pytest

from scheduler_project.web.turns import (
    ABOUT_SECONDS,
    HEAVY,
    MAX_OWED,
    MAX_PRICE,
    MAX_REMEMBERED,
    QUOTA,
    RESTS,
    SHORT_SECONDS,
    Bounds,
    Share,
    Turn,
    Turns,
    whose,
)

ACME, BRAVO = ("a", False), ("b", False)
NOW, LATER = Turn.NOW, Turn.LATER
#: The longest rest of a line, and the longest time for which a line that owes the maximum is heavy.
MAX_REST, MAX_HEAVY = (MAX_OWED - RESTS) / QUOTA, (MAX_OWED - HEAVY) / QUOTA
WIDE = Bounds(requests_of_one=10**6, bytes_of_one=10**9, requests_in_all=10**6, bytes_in_all=10**9)


def turns_of_a_heavy_key(share: Share) -> Turns[int]:
    """ACME owes the maximum at the instant 0, when it was alone."""
    turns: Turns[int] = Turns(share)
    turns.begin(-1, ACME, held=1, now=0)
    assert turns.end(ACME, now=0, computed=10) == []
    return turns


class TestTurns:
    def test_let_one_key_take_up_no_more_than_its_share_and_the_rest_in_order(self) -> None:
        turns: Turns[int] = Turns(Share(2, 2, 1))
        assert [turns.begin(n, ACME, held=1, now=0) for n in range(4)] == [NOW, NOW, LATER, LATER]
        assert turns.begin(9, BRAVO, held=1, now=0) is NOW
        assert [turns.end(ACME, now=0) for _ in range(4)] == [[2], [3], [], []]
        assert [turns.begin(n, ACME, held=1, now=0) for n in range(3)] == [NOW, NOW, LATER]

    def test_give_a_key_more_while_it_is_alone(self) -> None:
        turns = turns_of_a_heavy_key(Share(general=3, heavy=1, waiting=1))
        assert [turns.begin(n, ACME, held=1, now=0) for n in range(5)] == [NOW] * 3 + [LATER] * 2
        assert turns.begin(9, BRAVO, held=1, now=MAX_REST / 2) is NOW
        # ACME rests, and falls to its share among others as its calls end.
        assert [turns.end(ACME, now=MAX_REST / 2) for _ in range(3)] == [[], [], []]
        assert turns.rested(now=MAX_REST) == [3]
        assert turns.begin(5, ACME, held=1, now=MAX_REST) is LATER
        # ACME rises again once the others are gone.
        later = MAX_REST / 2 + 1.1 * ABOUT_SECONDS
        assert later < MAX_HEAVY + ABOUT_SECONDS
        assert turns.end(ACME, now=later, computed=10) == [4, 5]
        assert turns.begin(6, ACME, held=1, now=later) is NOW

    def test_hold_a_key_to_its_share_while_firings_start_late(self) -> None:
        turns = turns_of_a_heavy_key(Share(general=3, heavy=1, waiting=1))
        assert turns.is_unopposed(ACME, now=0)
        turns.note_late_starts(until=1)
        assert not turns.is_unopposed(ACME, now=0.5)
        assert [turns.begin(n, ACME, held=1, now=0.5) for n in range(2)] == [NOW, LATER]
        assert turns.is_unopposed(ACME, now=1)
        assert [turns.begin(n, ACME, held=1, now=1) for n in range(2, 5)] == [NOW, NOW, LATER]

    def test_ask_for_late_starts_only_about_a_heavy_key_that_is_alone(self) -> None:
        turns = turns_of_a_heavy_key(Share(general=3, heavy=1, waiting=1))
        assert not turns.is_unopposed(BRAVO, now=0)
        assert not turns.is_unopposed(ACME, now=MAX_HEAVY + 0.01)
        turns.note("", now=0)
        assert not turns.is_unopposed(ACME, now=0)

    def test_count_who_calls_without_a_key_as_another(self) -> None:
        turns = turns_of_a_heavy_key(Share(general=2, heavy=1, waiting=1))
        turns.note("", now=0)
        assert [turns.begin(n, ACME, held=1, now=ABOUT_SECONDS) for n in range(2)] == [NOW, LATER]
        later = 1.1 * ABOUT_SECONDS
        assert [turns.begin(n, ACME, held=1, now=later) for n in range(2, 4)] == [NOW, LATER]

    def test_remember_no_caller_for_longer_than_it_counts(self) -> None:
        turns: Turns[int] = Turns(Share(general=2, heavy=1, waiting=1))
        for n in range(1000):
            turns.note(str(n), now=n * ABOUT_SECONDS / 10)
        assert len(turns._called_at) <= 12

    def test_let_a_key_among_others_rest_until_it_has_taken_no_more_than_its_quota(self) -> None:
        turns: Turns[int] = Turns(Share(general=2, heavy=1, waiting=1))
        turns.note("", now=0)
        assert [turns.begin(n, ACME, held=1, now=0) for n in range(4)] == [NOW, NOW, LATER, LATER]
        assert turns.end(ACME, now=0, computed=RESTS + QUOTA / 4) == []
        assert turns.seconds_of_rest(now=0) == pytest.approx(0.25)
        assert turns.begin(4, ACME, held=1, now=0.125) is LATER
        assert turns.begin(9, BRAVO, held=1, now=0.125) is NOW
        # ACME's other call at work ends meanwhile. ACME owes for that call, too, once it has rested.
        assert turns.end(ACME, now=0.125, computed=QUOTA / 8) == []
        assert turns.rested(now=0.2) == []
        assert turns.rested(now=0.26) == [2]
        # No rest is longer than the maximum.
        assert turns.end(ACME, now=0.5, computed=100) == []
        turns.note("", now=0.5 + MAX_REST)
        assert turns.rested(now=0.5 + MAX_REST - 0.01) == []
        assert turns.rested(now=0.5 + MAX_REST + 0.01) == [3]
        assert turns.seconds_of_rest(now=2) == float("inf")

    def test_let_a_key_compute_less_where_processors_are_full(self) -> None:
        turns: Turns[int] = Turns(Share(general=1, heavy=1, waiting=1))
        turns.note("", now=0)
        assert [turns.begin(n, ACME, held=1, now=0) for n in range(4)] == [NOW, LATER, LATER, LATER]
        # BRAVO's calls waited for a processor far longer than they computed. ACME's own calls are short.
        turns.begin(9, BRAVO, held=1, now=0)
        assert turns.end(BRAVO, now=0, computed=0.1, delayed=100) == []
        for following in ([1], [2]):
            computed = 0.9 * SHORT_SECONDS
            assert turns.end(ACME, now=0, computed=computed) == following
        long = (RESTS - 2 * (MAX_PRICE - 1) * computed + QUOTA / 2) / MAX_PRICE
        assert turns.end(ACME, now=0, computed=long) == []
        assert turns.seconds_of_rest(now=0) == pytest.approx(0.5)

    @pytest.mark.parametrize(("delayed", "rests"), [(0.0, False), (1.0, True)])
    def test_let_a_key_that_is_refused_rest_where_processors_are_full(
        self, delayed: float, rests: bool
    ) -> None:
        turns: Turns[int] = Turns(Share(general=1, heavy=1, waiting=1))
        turns.note("", now=0)
        assert [turns.begin(n, ACME, held=1, now=0) for n in range(100)] == [NOW] + [LATER] * 99
        ended = 0
        while turns.end(ACME, now=0, computed=1e-6, delayed=delayed, refused=True):
            ended += 1
        assert ended == 99 if not rests else ended < 10
        assert (turns.seconds_of_rest(now=0) <= MAX_REST) is rests

    def test_charge_no_key_for_what_it_has_waited_for_a_processor(self) -> None:
        turns: Turns[int] = Turns(Share(general=1, heavy=1, waiting=1))
        for n in range(200):
            turns.note("", now=n / 10)
            assert turns.begin(n, ACME, held=1, now=n / 10) is NOW
            assert turns.end(ACME, now=n / 10, computed=QUOTA / MAX_PRICE / 10, delayed=1) == []
            assert turns.seconds_of_rest(now=n / 10) == float("inf")

    def test_let_short_calls_of_a_heavy_key_follow_each_other_where_processors_are_free(self) -> None:
        turns: Turns[int] = Turns(Share(general=1, heavy=1, waiting=1))
        turns.note("", now=0)
        assert [turns.begin(n, ACME, held=1, now=0) for n in range(200)] == [NOW] + [LATER] * 199
        for n in range(1, 200):
            turns.note("", now=n * SHORT_SECONDS)
            assert turns.end(ACME, now=n * SHORT_SECONDS, computed=0.9 * SHORT_SECONDS) == [n]

    def test_let_a_key_that_takes_no_more_than_its_quota_have_more_at_once_among_others(self) -> None:
        turns: Turns[int] = Turns(Share(general=2, heavy=1, waiting=1))
        now = 0.0
        for _ in range(20):
            now += 0.25
            turns.note("", now=now)
            assert [turns.begin(n, ACME, held=1, now=now) for n in range(3)] == [NOW, NOW, LATER]
            assert [turns.end(ACME, now=now, computed=QUOTA / 4 / 3) for _ in range(3)] == [[2], [], []]

    def test_remember_of_a_bounded_number_of_keys_what_they_owe(self) -> None:
        turns: Turns[int] = Turns(Share(general=2, heavy=1, waiting=1))
        for n in range(2 * MAX_REMEMBERED):
            turns.begin(n, (str(n), False), held=1, now=0)
            turns.end((str(n), False), now=0, computed=1)
        assert len(turns._owed) == MAX_REMEMBERED

    def test_let_a_key_that_is_alone_go_on(self) -> None:
        turns: Turns[int] = Turns(Share(general=1, heavy=1, waiting=1))
        assert [turns.begin(n, ACME, held=1, now=0) for n in range(2)] == [NOW, LATER]
        assert turns.end(ACME, now=1, computed=1) == [1]

    def test_count_calls_that_wait_by_themselves(self) -> None:
        turns: Turns[int] = Turns(Share(1, 1, 2))
        claims = (ACME[0], True)
        assert [turns.begin(n, claims, held=1, now=0) for n in range(3)] == [NOW, NOW, LATER]
        assert turns.begin(3, ACME, held=1, now=0) is NOW

    @pytest.mark.parametrize(
        ("bounds", "held", "in_line"),
        [
            (Bounds(requests_of_one=3), 1, 3),
            (Bounds(bytes_of_one=10), 4, 2),
            (Bounds(bytes_of_one=10), 11, 1),
        ],
    )
    def test_refuse_one_key_what_its_line_does_not_hold(
        self, bounds: Bounds, held: int, in_line: int
    ) -> None:
        turns: Turns[int] = Turns(Share(1, 1, 1), bounds)
        assert turns.begin(-1, ACME, held=held, now=0) is NOW
        assert [turns.begin(n, ACME, held=held, now=0) for n in range(in_line)] == [LATER] * in_line
        assert turns.begin(99, ACME, held=held, now=0) is Turn.KEY_FULL
        assert [turns.begin(n, BRAVO, held=held, now=0) for n in range(2)] == [NOW, LATER]
        # A request that was taken up holds no place, and a request that was refused does not come.
        assert turns.end(ACME, now=0) == [0]
        assert turns.begin(50, ACME, held=held, now=0) is LATER
        ended = [turns.end(ACME, now=0) for _ in range(in_line + 1)]
        assert ended == [*([n] for n in range(1, in_line)), [50], []]

    @pytest.mark.parametrize("bounds", [Bounds(requests_in_all=3), Bounds(bytes_in_all=14)])
    def test_refuse_all_keys_what_no_line_has_room_for(self, bounds: Bounds) -> None:
        turns: Turns[int] = Turns(Share(1, 1, 1), bounds)
        keys = [(str(n), False) for n in range(5)]
        assert [turns.begin(n, key, held=4, now=0) for n, key in enumerate(keys)] == [NOW] * 5
        said = [turns.begin(n, key, held=4, now=0) for n, key in enumerate(keys)]
        assert said == [LATER] * 3 + [Turn.ALL_FULL] * 2
        assert turns.begin(9, ("new", False), held=4, now=0) is NOW
        assert turns.end(keys[0], now=0) == [0]
        assert turns.begin(10, keys[4], held=4, now=0) is LATER

    def test_forget_nobody_and_remember_nobody_when_all_have_ended(self) -> None:
        rng, turns = random.Random(1), Turns[int](Share(2, 2, 1), WIDE)
        keys = [(str(n), n % 3 == 0) for n in range(9)]
        of = {n: rng.choice(keys) for n in range(2_000)}
        coming, at_work, done = deque(of), set(), []
        while len(done) < len(of):
            if coming and rng.random() < 0.6:
                request = coming.popleft()
                turn = turns.begin(request, of[request], held=request, now=0)
                at_work |= {request} if turn is NOW else set()
                assert turn in (NOW, LATER)
            elif at_work:
                at_work.remove(ended := rng.choice(sorted(at_work)))
                done.append(ended)
                computed = MAX_OWED if rng.random() < 0.1 else 0.0
                at_work |= {*turns.end(of[ended], now=0, computed=computed)}
            else:
                at_work |= {*turns.rested(now=MAX_REST)}
            assert all(
                count <= (1 if key[1] else 2) for key, count in Counter(of[n] for n in at_work).items()
            )
        assert sorted(done) == list(of)
        assert not turns._at_work
        assert not turns._lines
        assert not turns._bytes
        assert (turns._requests_in_all, turns._bytes_in_all) == (0, 0)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET /api/v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\n\r\n", ("k", False)),
        (b"GET /api/v1/jobs HTTP/1.1\r\nauthorization:Bearer k\r\nHost: a\r\n\r\n", ("k", False)),
        (b"POST /api/v1/worker/claim HTTP/1.1\r\nAuthorization: Bearer k\r\n\r\n", ("k", True)),
        (b"GET /api/v1/events?types=a HTTP/1.1\r\nAuthorization: Bearer k\r\n\r\n", ("k", True)),
        (b"GET /api/v1/eventsx HTTP/1.1\r\nAuthorization: Bearer k\r\n\r\n", ("k", False)),
        (b"GET / HTTP/1.1\r\nAuthorization: bearer  \x0b \xa0k\xa0 \r\n\r\n", ("k", False)),
        (b"GET / HTTP/1.1\r\nAuthorization: \r\n\r\n", None),
        (b"GET /admin/ HTTP/1.1\r\nHost: a\r\nX: authorization: b\r\n\r\n", None),
    ],
)
def test_a_request_is_of_the_key_it_names(head: bytes, expected: object) -> None:
    assert whose(head) == expected
