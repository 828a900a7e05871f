"""The judge, fed the rows that standbys lacked, and the API's answers while a disk was full."""

import pytest

from chaos.history import Answered, Replaced
from tests.chaos.histories import a_fault, a_job, a_run, delivered_at, firing, judged, kinds, without

JOB = a_job()


def replaced(number: int, *, acknowledged: int = 100, lost: int = 0) -> list:
    return [*a_fault(number, 25, 26, name="it"), Replaced(id="it", acknowledged=acknowledged, lost=lost)]


def answered(**answers: int) -> list:
    said = {name.replace("_", " "): count for name, count in answers.items()}
    return [*a_fault(11, 25, 45, name="it"), Answered(id="it", answers=said)]


class TestAStandby:
    def test_may_lack_nothing_that_was_acknowledged(self):
        assert judged(a_run(JOB, more=replaced(7))).passed
        assert kinds(a_run(JOB, more=replaced(7, lost=1))) == {"write lost"}

    def test_shows_nothing_if_nothing_was_acknowledged(self):
        assert kinds(a_run(JOB, more=replaced(7, acknowledged=0))) == {"write lost"}

    def test_that_nobody_waits_for_may_lack_some_and_it_is_counted(self):
        records = without(a_run(JOB, more=replaced(17, lost=3)), delivered_at(firing(3)))
        verdict = judged(records)
        assert verdict.passed, verdict.breaches
        assert verdict.excused["rows acknowledged before an asynchronous failover, lost"] == 3
        assert verdict.excused["lost, acknowledged writes having been lost"] == 1
        assert verdict.figures[1].lost == 1

    def test_excuses_nothing_of_what_went_before(self):
        records = without(a_run(a_job(every=5), more=replaced(17, lost=3)), delivered_at(firing(1, every=5)))
        assert kinds(records) == {"lost"}

    def test_that_every_commit_waits_for_excuses_nothing(self):
        assert kinds(without(a_run(JOB, more=replaced(7)), delivered_at(firing(3)))) == {"lost"}


class TestAFullDisk:
    def problem(self, **others: int) -> list:
        more = answered(**others)
        more[-1].answers["503 application/problem+json"] = 7
        return a_run(JOB, more=more)

    def test_is_answered_with_a_problem(self):
        assert judged(self.problem()).passed
        assert judged(self.problem(**{"201": 2})).passed

    @pytest.mark.parametrize("answer", ["500 application/problem+json", "503 text/html", "none"])
    def test_is_answered_with_nothing_else(self, answer):
        assert kinds(self.problem(**{answer: 1})) == {"answer"}

    def test_was_none_if_nobody_was_refused(self):
        assert kinds(a_run(JOB, more=answered(**{"201": 9}))) == {"answer"}
