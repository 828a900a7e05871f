"""How old a replica's answers are, computed from marks of the primary and the replica's progress in replay."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from jobs.store.replica.standing import Mark, Standing, Unfit, Word, judge

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)
MOST = timedelta(seconds=10)


def marks(*places: tuple[float, int]) -> list[Mark]:
    """Marks taken so many seconds before now, each at a place; the oldest first. It is noon on the primary."""
    now = time.monotonic()
    return [Mark(NOON - timedelta(seconds=ago), lsn, 1, 1, now - ago) for ago, lsn in places]


def standing(lsn: int | None, *, replayed: float | None = None, **changes: int) -> Standing:
    at = None if replayed is None else NOON - timedelta(seconds=replayed)
    return Standing(**{"replays": True, "lsn": lsn, "replayed_at": at, "cluster": 1, "database": 1} | changes)


class TestJudge:
    @pytest.mark.parametrize(
        ("lsn", "ago"), [(100, 4), (199, 4), (200, 2), (350, 0), (99, None)], ids=lambda value: str(value)
    )
    def test_goes_by_the_last_mark_that_was_passed(self, lsn: int, ago: float | None) -> None:
        known = marks((4, 100), (2, 200), (0, 300))
        if ago is None:
            with pytest.raises(Unfit):
                judge(standing(lsn), known, most=MOST)
        else:
            assert judge(standing(lsn), known, most=MOST) == NOON - timedelta(seconds=ago)

    def test_does_not_go_by_an_old_commit_where_nothing_was_written_since(self) -> None:
        assert judge(standing(300, replayed=3600), marks((0, 300)), most=MOST) == NOON

    def test_goes_by_the_last_commit_before_a_mark_is_passed(self) -> None:
        found = judge(standing(99, replayed=3), marks((0, 100)), most=MOST)
        assert found == NOON - timedelta(seconds=3)

    def test_refuses_what_is_older_than_it_may_be(self) -> None:
        with pytest.raises(Unfit, match=r"11\.. s behind") as refusal:
            judge(standing(100), marks((11, 100), (0, 200)), most=MOST)
        assert refusal.value.word is Word.BEHIND

    def test_knows_the_age_without_asking_the_primary_again(self) -> None:
        """The primary is away, so its last mark is old."""
        with pytest.raises(Unfit, match=r"11\.. s behind"):
            judge(standing(100), marks((11, 100)), most=MOST)

    def test_does_not_call_behind_what_it_has_not_watched_for_long(self) -> None:
        with pytest.raises(Unfit) as refusal:
            judge(standing(99, replayed=3600), marks((1, 100), (0, 100)), most=MOST)
        assert refusal.value.word is Word.UNKNOWN

    @pytest.mark.parametrize("lsn", [None, 99])
    def test_calls_behind_what_has_replayed_nothing_for_long(self, lsn: int | None) -> None:
        with pytest.raises(Unfit, match="behind by an unknown time") as refusal:
            judge(standing(lsn), marks((12, 100), (0, 100)), most=MOST)
        assert refusal.value.word is Word.BEHIND

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"replays": False}, "not in recovery"),
            ({"cluster": 2}, "another cluster or database"),
            ({"database": 2}, "another cluster or database"),
        ],
    )
    def test_refuses_what_is_no_replica_of_that_primary(self, changes: dict[str, int], words: str) -> None:
        with pytest.raises(Unfit, match=words) as refusal:
            judge(standing(300, replayed=0, **changes), marks((0, 300)), most=MOST)
        assert refusal.value.word is Word.REFUSED

    def test_knows_nothing_before_the_primary_was_asked(self) -> None:
        with pytest.raises(Unfit) as refusal:
            judge(standing(300, replayed=0), [], most=MOST)
        assert refusal.value.word is Word.UNKNOWN
