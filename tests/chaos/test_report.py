"""The form of a verdict."""

from io import StringIO
from xml.etree import ElementTree

from rich.console import Console

from chaos.history import write
from chaos.judge import Case
from chaos.report.chart import chart
from chaos.report.table import table
from tests.chaos.histories import a_fault, a_job, a_run, delivered_at, firing, judged, without

RECORDS = a_run(a_job(), more=a_fault(5, 25, 30, name="<down & out>"))


def printed(records) -> str:
    console = Console(width=200, file=StringIO())
    console.print(table(judged(records), title="a run"))
    return console.file.getvalue()


class TestTheTable:
    def test_has_a_line_for_the_calm_and_one_for_each_fault(self):
        text = printed(RECORDS)
        assert "calm" in text
        assert "5 Postgres crashes x 1" in text
        assert "no promise broken" in text

    def test_names_each_breach(self):
        text = printed(without(RECORDS, delivered_at(firing(2))))
        assert "lost: job at 12:00:20.250: never delivered" in text
        assert "1 lost" in text


class TestTheChart:
    def test_has_a_point_for_each_firing_and_a_bar_for_each_fault(self):
        picture = ElementTree.fromstring(chart(Case(RECORDS)))
        names = [element.tag.rpartition("}")[2] for element in picture.iter()]
        assert names.count("circle") == 5
        assert "<down & out>" in [element.text for element in picture.iter()]

    def test_is_drawn_even_of_nothing(self):
        ElementTree.fromstring(chart(Case([])))


class TestTheCommand:
    def test_judges_a_file_again_and_says_by_its_status_whether_it_passed(self, tmp_path, monkeypatch):
        from chaos.__main__ import main

        for records, status in ((RECORDS, 0), (without(RECORDS, delivered_at(firing(2))), 1)):
            write(tmp_path / "history.jsonl", records)
            monkeypatch.setattr("sys.argv", ["chaos", "judge", str(tmp_path / "history.jsonl")])
            assert main() == status
        assert (tmp_path / "history.svg").exists()
