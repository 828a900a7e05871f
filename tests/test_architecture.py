"""Rules that keep the code readable, as tests: layers, sizes, names."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE = [
    path
    for package in ("jobs", "tenants", "scheduler_project", "carillon")
    for path in sorted((ROOT / package).rglob("*.py"))
    if "migrations" not in path.parts
]
MAX_LINES = 400
MAX_MODULES = 12


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def defines_something(path: Path) -> bool:
    """Whether a module holds code of its own, as an ``__init__`` that only gathers names does not."""
    return any(
        isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.parse(path.read_text()).body
    )


class TestLayers:
    def test_imports_run_one_way(self) -> None:
        answer = subprocess.run(
            [
                sys.executable,
                "-c",
                "from importlinter.cli import lint_imports_command; lint_imports_command()",
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr


class TestSizes:
    def test_no_module_is_longer_than_400_lines(self) -> None:
        lengths = {relative(path): len(path.read_text().splitlines()) for path in CODE}
        assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}

    def test_no_folder_holds_more_than_a_dozen_modules(self) -> None:
        counts = Counter(
            relative(path.parent) for path in CODE if path.name != "__init__.py" or defines_something(path)
        )
        assert {name: count for name, count in counts.items() if count > MAX_MODULES} == {}


class TestNames:
    def test_no_file_is_named_after_a_noun_that_says_nothing(self) -> None:
        vague = re.compile(r"(^|_)(utils?|helpers?|managers?)(_|$)")
        assert [relative(path) for path in CODE if vague.search(path.stem)] == []


def calls_of_the_test_itself(test: ast.AST) -> Iterator[ast.Call]:
    """Calls that the test makes itself. Functions that it defines are handlers under test, whose calls may hang."""
    for child in ast.iter_child_nodes(test):
        if isinstance(child, ast.Call):
            yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from calls_of_the_test_itself(child)


class TestTests:
    def test_none_sleeps(self) -> None:
        assert [
            f"{relative(path)}:{call.lineno}"
            for path in sorted((ROOT / "tests").rglob("test_*.py"))
            for test in ast.walk(ast.parse(path.read_text()))
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test_")
            for call in calls_of_the_test_itself(test)
            if ast.unparse(call.func).split(".")[-1] == "sleep"
        ] == []
