"""How workers are scaled in Kubernetes: the custom resources, and the queries that Prometheus answers."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.urls import resolve

from jobs.api import metrics
from tests.interfaces.kubernetes.manifests import CALLS_A_PROCESS, CUSTOM, DEPLOYMENTS, PODS, of_kind


class TestCustomResources:
    def test_are_a_monitor_of_web_at_the_path_that_tells_figures(self) -> None:
        [monitor] = of_kind("ServiceMonitor", CUSTOM).values()
        assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
        assert monitor["spec"].keys() == {"selector", "endpoints"}
        labels = of_kind("Service")["carillon-web"]["metadata"]["labels"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
        [endpoint] = monitor["spec"]["endpoints"]
        assert endpoint.keys() == {"port", "path", "interval", "authorization"}
        assert endpoint["port"] in {
            port["name"] for port in of_kind("Service")["carillon-web"]["spec"]["ports"]
        }
        resolve(endpoint["path"])

    @pytest.mark.parametrize("name", [name for name in DEPLOYMENTS if "worker" in name])
    def test_scale_each_pool_by_what_a_pod_has_in_flight(self, name: str) -> None:
        scaled = of_kind("ScaledObject", CUSTOM)[name]
        assert scaled["apiVersion"] == "keda.sh/v1alpha1"
        spec = scaled["spec"]
        wanted = {
            "scaleTargetRef",
            "minReplicaCount",
            "maxReplicaCount",
            "pollingInterval",
            "advanced",
            "triggers",
        }
        assert spec.keys() == wanted
        assert spec["scaleTargetRef"] == {"name": name}
        assert 0 < spec["minReplicaCount"] < spec["maxReplicaCount"]
        assert spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"].keys() == {
            "scaleUp",
            "scaleDown",
        }
        [trigger] = spec["triggers"]
        assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
        assert trigger["metadata"].keys() == {"serverAddress", "query", "threshold", "ignoreNullValues"}
        [concurrency] = re.findall(r"--concurrency=(\d+)", " ".join(PODS[name]["containers"][0]["command"]))
        at_once = CALLS_A_PROCESS if name == "carillon-worker-webhook" else 1
        assert trigger["metadata"]["threshold"] == str(int(concurrency) * at_once)

    @pytest.mark.django_db
    def test_ask_for_figures_that_are_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(metrics, "broker_answers", lambda: True)
        told = set(re.findall(r"^# TYPE (\w+) ", metrics.exposition().decode(), re.MULTILINE))
        asked = {name for query in QUERIES.values() for name in re.findall(r"\bcarillon_\w+", query)}
        assert len(asked) == 4
        assert asked <= told


QUERIES = {
    name: one["spec"]["triggers"][0]["metadata"]["query"]
    for name, one in of_kind("ScaledObject", CUSTOM).items()
}
#: Series that two web processes report alike. The queries take the maximum of the two.
SERIES = (
    ("carillon_up", 1),
    ('carillon_in_flight_triggers{job_type="webhook",state="queued"}', 30),
    ('carillon_in_flight_triggers{job_type="webhook",state="running"}', 500),
    ('carillon_due_triggers{job_type="webhook"}', 1000),
    ('carillon_parked_triggers{job_type="webhook",cause="rate"}', 100),
    ('carillon_parked_triggers{job_type="webhook",cause="overlap"}', 30),
    ('carillon_in_flight_triggers{job_type="reports.build",state="running"}', 2),
    ('carillon_due_triggers{job_type="reports.build"}', 3),
    ('carillon_due_triggers{job_type="mail.send"}', 4),
    ('carillon_due_triggers{job_type="declared@tenants"}', 500),
)


@pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool is missing: Debian's package prometheus has it"
)
class TestTheQueries:
    def ask(
        self, directory: Path, series: tuple[tuple[str, int], ...], expected: dict[str, int | None]
    ) -> str:
        """promtool's errors if two pods report ``series`` and each query must answer as ``expected``; empty if none."""

        def told(name: str, pod: str) -> str:
            return name.replace("{", f'{{pod="{pod}",') if "{" in name else f'{name}{{pod="{pod}"}}'

        (directory / "none.yml").write_text("groups: []")
        test = {
            "interval": "15s",
            "input_series": [
                {"series": told(name, pod), "values": f"{value}x10"} for name, value in series for pod in "ab"
            ],
            "promql_expr_test": [
                {
                    "expr": QUERIES[name],
                    "eval_time": "1m",
                    "exp_samples": [] if value is None else [{"labels": "{}", "value": value}],
                }
                for name, value in expected.items()
            ],
        }
        (directory / "test.yml").write_text(json.dumps({"rule_files": ["none.yml"], "tests": [test]}))
        command = ["promtool", "test", "rules", "test.yml"]
        ran = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        return "" if ran.returncode == 0 else ran.stdout + ran.stderr

    def test_count_what_is_ready_once(self, tmp_path: Path) -> None:
        expected = {
            "carillon-worker-webhook": 30 + 500 + 1000 - 100 - 30,
            "carillon-worker-default": 2 + 3 + 4,
        }
        assert self.ask(tmp_path, SERIES, expected) == ""

    def test_are_nought_while_nothing_is_ready(self, tmp_path: Path) -> None:
        assert self.ask(tmp_path, SERIES[:1], dict.fromkeys(QUERIES, 0)) == ""

    @pytest.mark.parametrize("away", [(), (("carillon_up", 0),)], ids=["no figures", "no database"])
    def test_answer_nothing_while_nothing_is_known(
        self, tmp_path: Path, away: tuple[tuple[str, int], ...]
    ) -> None:
        """Then KEDA leaves the number of pods as it is."""
        assert self.ask(tmp_path, away, dict.fromkeys(QUERIES)) == ""
