"""Debian's Prometheus with the rules and the intervals of ``deploy/monitoring``, looking at one web process."""

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import yaml

from stage.processes import free_port
from stage.waiting import wait_until

MONITORING = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
PROGRAM = shutil.which("prometheus")


class Prometheus:
    """``with Prometheus(home, web="127.0.0.1:8000") as prometheus``."""

    def __init__(self, home: Path, *, web: str) -> None:
        self._home, self._web = home, web
        self._address = f"127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        settings = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        del settings["alerting"]
        settings["rule_files"] = [str(MONITORING / "rules.yml")]
        [scraped] = settings["scrape_configs"]
        del scraped["authorization"]  # callers of the same machine need no token
        scraped["static_configs"] = [{"targets": [self._web]}]
        file = self._home / "prometheus.yml"
        file.write_text(yaml.safe_dump(settings))
        self._log = (self._home / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                str(PROGRAM),
                f"--config.file={file}",
                f"--storage.tsdb.path={self._home / 'tsdb'}",
                f"--web.listen-address={self._address}",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until(lambda: self.value("max(carillon_up)") == 1, 60, what="Prometheus to have scraped")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()

    def firing(self, alert: str, job_type: str = "") -> dict[str, str] | None:
        """The annotations of an alert that fires, for this job type if it is given for each; None: it does not fire."""
        for one in self._ask("alerts")["alerts"]:
            labels = one["labels"]
            if one["state"] == "firing" and (labels["alertname"], labels.get("job_type", "")) == (
                alert,
                job_type,
            ):
                annotations: dict[str, str] = one["annotations"]
                return annotations
        return None

    def value(self, expression: str) -> float | None:
        """The value of an expression with one result; None while it has none."""
        found = self._ask("query", query=expression)["result"]
        return float(found[0]["value"][1]) if found else None

    def _ask(self, what: str, **parameters: str) -> Any:
        address = f"http://{self._address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return json.loads(answer.read())["data"]
        except OSError:  # it is still starting
            return {"result": [], "alerts": []}


def waits_seconds(alert: str) -> int:
    """The rule's ``for``."""
    rules = yaml.safe_load((MONITORING / "rules.yml").read_text())
    [waits] = [
        rule.get("for", "0s") for g in rules["groups"] for rule in g["rules"] if rule.get("alert") == alert
    ]
    return int(waits[:-1]) * {"s": 1, "m": 60, "h": 3600}[waits[-1]]
