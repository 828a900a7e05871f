"""``deploy/monitoring``: alerts fire when they should, name figures of ``/metrics``, and lead to a playbook."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.api import metrics
from jobs.store import replica

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
PLAYBOOKS = ROOT / "docs" / "playbooks"
RULES = [
    rule
    for group in yaml.safe_load((MONITORING / "rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
TESTS = yaml.safe_load((MONITORING / "rules_test.yml").read_text())["tests"]
BOARDS = sorted((MONITORING / "grafana").rglob("*.json"))
ALERTS = {rule["alert"] for rule in RULES if "alert" in rule}


def expressions(node: Any) -> Iterator[str]:
    """The queries of a board to Prometheus, wherever they stand in it."""
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key == "expr")
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from expressions(item)


@pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool is missing: Debian's package prometheus has it"
)
class TestPromtool:
    @pytest.mark.parametrize(
        "command",
        [
            ("check", "rules", "rules.yml"),
            ("test", "rules", "rules_test.yml"),
            ("check", "config", "--syntax-only", "prometheus.yml"),
        ],
        ids=" ".join,
    )
    def test_finds_nothing_wrong(self, command: tuple[str, ...]) -> None:
        ran = subprocess.run(
            ["promtool", *command], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


class TestAlerts:
    def test_are_each_shown_to_fire_and_to_be_silent(self) -> None:
        cases = [case for test in TESTS for case in test["alert_rule_test"]]
        assert {case["alertname"] for case in cases if case["exp_alerts"]} == ALERTS
        assert {case["alertname"] for case in cases if not case["exp_alerts"]} == ALERTS

    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
    def test_say_how_bad_it_is_in_a_sentence_and_what_to_do(self, rule: dict[str, Any]) -> None:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")
        page = ROOT / rule["annotations"]["playbook"]
        assert page.parent == PLAYBOOKS
        assert f"`{rule['alert']}`" in page.read_text(), f"{page.name} does not name it"


class TestPlaybooks:
    def test_name_only_alerts_that_there_are(self) -> None:
        named = {
            name
            for page in PLAYBOOKS.glob("*.md")
            for name in re.findall(r"`(Carillon\w+)`", page.read_text())
        }
        assert named == ALERTS

    def test_are_all_in_the_list_and_say_when_it_is_over(self) -> None:
        pages = {page.name: page.read_text() for page in PLAYBOOKS.glob("*.md")}
        listed = set(re.findall(r"\]\(([\w-]+\.md)\)", pages.pop("README.md")))
        assert listed == pages.keys()
        assert [name for name, text in pages.items() if "\n## It is over when\n" not in text] == []


@pytest.mark.django_db
def test_every_figure_that_is_asked_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "broker_answers", lambda: True)
    with_a_replica = replica.Condition(replica.Word.OK, lag_seconds=0.5)
    monkeypatch.setattr(replica, "condition", lambda: with_a_replica)
    told = set(re.findall(r"^# TYPE (\w+) ", metrics.exposition().decode(), re.MULTILINE))
    asked = {
        name
        for text in [
            *(rule["expr"] for rule in RULES),
            *(expr for board in BOARDS for expr in expressions(json.loads(board.read_text()))),
        ]
        for name in re.findall(r"\bcarillon_\w+", text)
    }
    assert asked
    assert {
        name for name in asked if name not in told and re.sub("_(bucket|sum|count)$", "", name) not in told
    } == set()
