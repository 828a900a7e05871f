"""A reader's terminal: runs the blocks of one page in order, as a reader who types them in would.

In a page, ``…`` stands for a value that the reader has or that an earlier answer gave. ``KEY=ck_…`` is filled with the
last printed key, ``"trigger_id": "018f…"`` with the last such member. Addresses lead to the test's own stack.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests

from stage.processes import kill_tree
from tests.examples.pages import Block

#: Values for variables that the page prints: the last match in the output.
PRINTED = {"KEY": r"(ck_[\w-]+)", "WORKER_KEY": r"(ck_[\w-]+)", "ID": r'"id": ?"([0-9a-f-]{36})"'}
CRONTAB = "MAILTO=ops@example.com\n0 2 * * * /usr/local/bin/backup\n*/5 * * * * /usr/local/bin/sync --all\n"


class Terminal:
    """``run`` raises AssertionError with the output when a block fails."""

    def __init__(
        self, directory: Path, *, environment: Mapping[str, str], replaced: Mapping[str, str]
    ) -> None:
        self._directory, self._replaced = directory, replaced
        self._printed, self._last = "", ""
        self._beside: list[subprocess.Popen[bytes]] = []
        self.names: dict[str, Any] = {}
        tools = directory / "tools"
        tools.mkdir()
        # A refusal is a failure. The crontab is a file of the test, not this machine's.
        _script(tools / "curl", 'exec /usr/bin/env -S PATH="$OLD_PATH" curl --fail-with-body "$@"')
        _script(tools / "crontab", f"cat {directory}/crontab")
        (directory / "crontab").write_text(CRONTAB)
        (directory / ".venv").symlink_to(sys.prefix)
        (directory / "manage.py").symlink_to(Path.cwd() / "manage.py")
        path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**environment, "PATH": path, "OLD_PATH": os.environ["PATH"]}

    def run(self, block: Block) -> None:
        text = block.text
        for there, here in self._replaced.items():
            text = re.sub(there, here, text)
        if block.marker == "runs on":
            self._start(text)
        elif block.language == "sh":
            self._last = self._shell(text)
        elif block.language == "yaml":
            (self._directory / "jobs.yaml").write_text(text)
            self._shell("carillon apply -f jobs.yaml")
        elif block.language == "python":
            exec(compile(text, str(block), "exec"), self.names)
        elif block.language == "json":
            self._judge(json.loads(text), block)

    def close(self) -> None:
        for process in self._beside:
            kill_tree(process.pid)
            process.wait(10)

    def _shell(self, text: str) -> str:
        """The output of the commands. Their exports are there for the next block."""
        kept = self._directory / "exported"
        script = f"[ -e {kept} ] && . {kept}\n{self._filled(text)}\nexport -p > {kept}\n"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self._directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{done.returncode}: {script}\n{done.stdout}\n{done.stderr}"
        self._printed += done.stdout
        return done.stdout

    def _start(self, text: str) -> None:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self._directory,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._beside.append(process)
        try:
            status = process.wait(2)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"ended at once with {status}: {text}")

    def _filled(self, text: str) -> str:
        for name in re.findall(r"\b([A-Z_]+)=\S*…", text):
            before, assignment, after = text.partition(re.search(rf"\b{name}=\S*…\S*", text)[0])  # type: ignore[index]
            if name in PRINTED and not self._last_printed(PRINTED[name]):
                # A command of this block prints it: run the block up to here first.
                ahead, _, before = before.rpartition("\n")
                self._last = self._shell(ahead)
            found = self._last_printed(PRINTED[name]) if name in PRINTED else self.environment[name]
            text = f"{before}{assignment.split('=')[0]}={found}{after}"
        return re.sub(
            r'"(\w+)": (?:"[^"]*…"|…)', lambda member: f'"{member[1]}": {self._member(member[1])}', text
        )

    def _last_printed(self, pattern: str) -> str:
        return next(iter(re.findall(pattern, self._printed)[-1:]), "")

    def _member(self, name: str) -> str:
        found = re.findall(rf'"{name}": ?("[^"]*"|\d+)', self._printed)
        assert found, f"nothing before has printed {name}"
        return str(found[-1])

    def _judge(self, shown: Any, block: Block) -> None:
        if block.marker == "a job" or block.marker.startswith("payload of "):
            self._create(shown, block.marker)
        elif block.follows:
            answer = json.loads(self._last)
            assert set(shown) == set(answer), f"{sorted(shown)} is shown, {sorted(answer)} was answered"

    def _create(self, shown: Any, marker: str) -> None:
        job = {
            "name": marker.replace(" ", "-"),
            "job_type": "noop",
            "schedule": {"type": "once", "run_at": "2090-01-01T00:00:00Z"},
        }
        if marker == "a job":
            job |= {name: value for name, value in shown.items() if name != "…"}
        else:
            job |= {"job_type": marker.removeprefix("payload of "), "payload": shown}
        key = {"Authorization": f"Bearer {self.environment['CARILLON_API_KEY']}"}
        answer = requests.post(
            f"{self.environment['CARILLON_URL']}/api/v1/jobs", json=job, headers=key, timeout=20
        )
        assert answer.status_code == 201, answer.text


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
