"""docs/cli.md, checked against the commands; and the completion that shells ask for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import typer.main

from carillon.app import app
from carillon.errors import DIFFERS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text()


def test_the_page_names_every_command() -> None:
    cells = re.findall(r"^\| (`.+?) \|", PAGE, re.MULTILINE)
    named = {word for cell in cells for quoted in re.findall("`([^`]+)`", cell) for word in quoted.split()}
    root = typer.main.get_command(app)
    commands = dict(root.commands)  # type: ignore[attr-defined]
    inner = {name for group in commands.values() for name in getattr(group, "commands", {})}
    assert set(commands) | inner <= named


def test_the_page_explains_every_exit_code() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert codes == {*range(DIFFERS + 1), 130}


def test_shells_complete_commands() -> None:
    asked = {"_CARILLON_COMPLETE": "complete_bash", "COMP_WORDS": "carillon dead", "COMP_CWORD": "1"}
    answer = subprocess.run(
        [sys.executable, "-m", "carillon"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.split() == ["dead-letters"], answer.stderr
