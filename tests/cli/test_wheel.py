"""The command line as a wheel, without the network: `make wheel` also installs it in an empty environment."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import carillon.app
assert carillon.__file__.startswith(sys.argv[1]), carillon.__file__
carillon.app.main(sys.argv[2:])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as two builds in one directory disturb each other."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("carillon", "jobs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = ["pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(made), "."]
    done = subprocess.run([sys.executable, "-m", *build], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = made.iterdir()
    return path


class TestTheWheel:
    def test_is_named_by_the_version(self, wheel: Path) -> None:
        assert wheel.name == f"carillon-{VERSION}-py3-none-any.whl"

    def test_has_all_of_the_command_line_and_nothing_of_the_server(self, wheel: Path) -> None:
        within = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
        assert within == {str(path.relative_to(ROOT)) for path in (ROOT / "carillon").rglob("*.py")}

    def test_tells_its_version(self, wheel: Path, tmp_path: Path) -> None:
        command = [sys.executable, "-P", "-c", RUN, str(wheel), "--version"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"{VERSION}\n"), done.stderr
