"""The output of a bench, and that each is written about."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHES
from benchmarks.report import Report, Row, percentile
from benchmarks.stage import BenchError
from stage.processes import PROJECT_DIR

PACKAGE = PROJECT_DIR / "benchmarks"
PAGE = (PROJECT_DIR / "docs" / "benchmarks.md").read_text()


class TestAReport:
    REPORT = Report(
        name="throughput",
        title="No-ops",
        unit="per second",
        ours=8000.12345,
        peer=1000.0,
        ratio=8.00012345,
        columns=("median",),
        rows=(Row("Carillon", ("8,000",)),),
        more={"ratio_tuned": 2.5},
    )

    def test_is_one_json_line_with_the_ratio_to_the_first_peer(self) -> None:
        line = self.REPORT.json()
        assert "\n" not in line
        assert json.loads(line) == {
            "name": "throughput",
            "unit": "per second",
            "ours": 8000.123,
            "peer": 1000.0,
            "ratio": 8.0,
            "ratio_tuned": 2.5,
        }

    def test_is_a_table_with_a_column_for_each_figure(self) -> None:
        table = self.REPORT.table()
        assert [column.header for column in table.columns] == ["", "median"]
        assert table.row_count == 1


class TestAPercentile:
    @pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 51), (0.99, 100), (1.0, 100)])
    def test_is_one_of_the_values(self, share: float, value: int) -> None:
        assert percentile([float(n) for n in range(100, 0, -1)], share) == value

    def test_of_nothing_is_an_error_that_says_so(self) -> None:
        with pytest.raises(BenchError, match="nothing was measured"):
            percentile([], 0.99)


class TestThePage:
    def test_has_a_section_for_each_bench(self) -> None:
        assert re.findall(r"^### `(\w+)`", PAGE, re.MULTILINE) == list(BENCHES)


class TestTheFolders:
    def test_hold_a_file_of_its_name_for_each_bench(self) -> None:
        assert set(BENCHES) <= {path.stem for path in PACKAGE.glob("*.py")}

    def test_of_what_benches_share_hold_no_more_than_a_dozen_modules(self) -> None:
        modules = [path for path in PACKAGE.rglob("*/*.py") if path.name != "__init__.py"]
        assert max(Counter(path.parent for path in modules if path.parent != PACKAGE).values()) <= 12

    def test_hold_no_module_of_more_than_400_lines(self) -> None:
        assert max(_lines(path) for path in PACKAGE.rglob("*.py")) <= 400


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())
