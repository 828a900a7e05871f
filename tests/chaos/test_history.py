"""Histories on file."""

import pytest

from chaos import history
from chaos.history import Called, Journal
from tests.chaos.histories import T0, a_fault, a_job, a_run, firing, judged


class TestHistory:
    def test_comes_back_as_it_was_written(self, tmp_path):
        called = Called(
            job_id="job", verb="run", requested_at=T0, acknowledged_at=None, scheduled_for=firing(1)
        )
        records = [*a_run(a_job(), more=a_fault(1, 5, 6)), called]
        history.write(tmp_path / "h.jsonl", records)
        assert list(history.read(tmp_path / "h.jsonl")) == records

    def test_is_judged_the_same_from_the_file(self, tmp_path):
        records = a_run(a_job(), more=a_fault(1, 5, 6))
        history.write(tmp_path / "h.jsonl", records)
        assert judged(list(history.read(tmp_path / "h.jsonl"))) == judged(records)

    def test_leaves_out_a_last_line_that_was_cut_off(self, tmp_path):
        journal = Journal(tmp_path / "h.jsonl")
        journal.note(a_job())
        journal.close()
        with journal.path.open("a") as file:
            file.write('{"kind": "Star')
        assert list(history.read(journal.path)) == [a_job()]

    @pytest.mark.parametrize(
        "line", ["[]", '{"kind": "Nonsense"}', '{"kind": "Closed"}', '{"kind": "Closed", "x": 1}']
    )
    def test_refuses_what_is_no_record(self, line):
        with pytest.raises(ValueError):  # noqa: PT011
            history.from_line(line)
