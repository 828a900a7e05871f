"""``deploy/kubernetes``: what it names exists, what it bounds fits together, and Kubernetes takes it."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from celery.bin.celery import celery
from click import Context
from django.urls import resolve

from jobs.api import metrics
from jobs.conf import EngineSettings
from scheduler_project.environment import Platform

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
#: The oldest and the newest release of Kubernetes that the manifests are held to.
RELEASES = ("1.30", "1.37")
OVERLAYS = ("base", "overlays/small", "overlays/production")
#: Of pods, for others to be made of: no settings.
EXPANDED = {"POD_IP", "PUBLIC_HOSTS"}
#: What gunicorn.conf.py and the commands read besides.
OTHERS = {"WEB_CONCURRENCY", "POSTGRES_APP_PASSWORD"}
#: A process of the webhook pool has so many calls in flight (deploy/kubernetes/components/keda).
CALLS_A_PROCESS = 200
Object = dict[str, Any]


def objects(*patterns: str) -> list[Object]:
    """The objects in files, without those of kustomize."""
    files = [path for pattern in patterns for path in sorted(KUBERNETES.glob(pattern))]
    found = [one for path in files for one in yaml.safe_load_all(path.read_text())]
    return [one for one in found if one["kind"] not in ("Kustomization", "Component")]


BASE = objects("base/*.yaml")
CUSTOM = objects("components/*/*.yaml")
KUSTOMIZATIONS = {path: yaml.safe_load(path.read_text()) for path in KUBERNETES.rglob("kustomization.yaml")}


def of_kind(kind: str, among: list[Object] = BASE) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in among if one["kind"] == kind}


DEPLOYMENTS, JOB = of_kind("Deployment"), of_kind("Job")["carillon-migrate"]
PODS = {name: one["spec"]["template"]["spec"] for name, one in (DEPLOYMENTS | {"migrate": JOB}).items()}
CONTAINERS = [
    pytest.param(pod, container, id=f"{name}-{container['name']}")
    for name, pod in PODS.items()
    for container in (*pod.get("initContainers", ()), *pod["containers"])
]
SETTINGS = {str(field.validation_alias) for field in Platform.model_fields.values()} | {
    f"CARILLON_{name.upper()}" for name in EngineSettings.model_fields
}
CONFIG = dict(
    literal.split("=", 1)
    for one in KUSTOMIZATIONS.values()
    for generator in one.get("configMapGenerator", ())
    for literal in generator["literals"]
)
DRAIN_SECONDS = float(CONFIG["CARILLON_DRAIN_SECONDS"])


class TestTheBase:
    @pytest.mark.parametrize("release", RELEASES)
    @pytest.mark.parametrize("one", BASE, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
    def test_is_what_kubernetes_takes(self, one: Object, release: str) -> None:
        kubernetes_validate.validate(one, release, strict=True)

    def test_would_be_refused_with_a_field_that_there_is_not(self) -> None:
        one = json.loads(json.dumps(DEPLOYMENTS["carillon-web"]))
        one["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(one, RELEASES[-1], strict=True)

    def test_lists_each_of_its_files(self) -> None:
        listed = KUSTOMIZATIONS[KUBERNETES / "base" / "kustomization.yaml"]["resources"]
        assert {*listed, "kustomization.yaml"} == {path.name for path in (KUBERNETES / "base").iterdir()}

    def test_has_web_two_beats_apart_and_a_pool_for_webhooks(self) -> None:
        assert set(DEPLOYMENTS) == {
            f"carillon-{name}" for name in ("web", "beat", "worker-webhook", "worker-default")
        }
        assert DEPLOYMENTS["carillon-beat"]["spec"]["replicas"] == 2
        [apart] = PODS["carillon-beat"]["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        labels = DEPLOYMENTS["carillon-beat"]["spec"]["template"]["metadata"]["labels"]
        assert apart["labelSelector"]["matchLabels"] == labels
        assert apart["topologyKey"] == "kubernetes.io/hostname"
        queues = {name: " ".join(PODS[name]["containers"][0]["command"]) for name in DEPLOYMENTS}
        assert "--queues=jobs.webhook " in queues["carillon-worker-webhook"]
        assert "--exclude-queues=jobs.webhook " in queues["carillon-worker-default"]

    @pytest.mark.parametrize("name", DEPLOYMENTS)
    def test_selects_its_own_pods_and_bounds_their_disruption(self, name: str) -> None:
        spec = DEPLOYMENTS[name]["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels
        assert of_kind("PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"] == labels
        assert labels["app.kubernetes.io/component"] == name.removeprefix("carillon-")

    def test_leads_the_service_to_web(self) -> None:
        service = of_kind("Service")["carillon-web"]["spec"]
        assert service["selector"] == DEPLOYMENTS["carillon-web"]["spec"]["template"]["metadata"]["labels"]
        assert [port["targetPort"] for port in service["ports"]] == ["http"]

    def test_lets_nobody_call_anything_but_web(self) -> None:
        policies = of_kind("NetworkPolicy")
        everything = policies["carillon"]["spec"]
        assert (everything["ingress"], everything["policyTypes"]) == ([], ["Ingress", "Egress"])
        open_to = {
            name: one["spec"].get("ingress") for name, one in policies.items() if one["spec"].get("ingress")
        }
        assert set(open_to) == {"carillon-web"}
        components = {
            value
            for one in policies.values()
            for expression in one["spec"]["podSelector"].get("matchExpressions", ())
            for value in expression["values"]
        }
        assert components < {name.removeprefix("carillon-") for name in DEPLOYMENTS}


class TestAPod:
    @pytest.mark.parametrize("name", PODS)
    def test_is_no_root_and_asks_kubernetes_for_nothing(self, name: str) -> None:
        pod = PODS[name]
        [user] = re.findall(r"useradd .*--uid (\d+)", DOCKERFILE)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == int(user)
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["serviceAccountName"] in of_kind("ServiceAccount")

    @pytest.mark.parametrize(("pod", "container"), CONTAINERS)
    def test_writes_to_its_temporary_directory_alone(self, pod: Object, container: Object) -> None:
        least = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["securityContext"] == least
        assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
        assert [volume["name"] for volume in pod["volumes"] if "emptyDir" in volume] == ["tmp"]

    @pytest.mark.parametrize(("pod", "container"), CONTAINERS)
    def test_runs_the_image_within_bounds(self, pod: Object, container: Object) -> None:
        assert container["image"] == "carillon"
        assert "ENTRYPOINT" not in DOCKERFILE
        assert set(container["resources"]) == {"requests", "limits"}
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}

    @pytest.mark.parametrize(("pod", "container"), CONTAINERS)
    def test_is_told_settings_that_there_are(self, pod: Object, container: Object) -> None:
        named = {one["name"] for one in container.get("env", ())}
        assert named <= SETTINGS | EXPANDED | OTHERS
        for one in container.get("env", ()):
            assert set(re.findall(r"\$\((\w+)\)", one.get("value", ""))) <= named

    @pytest.mark.parametrize("name", DEPLOYMENTS)
    def test_waits_for_the_schema_of_its_release(self, name: str) -> None:
        [first] = PODS[name]["initContainers"]
        assert "manage.py migrate --check" in first["command"][-1]
        assert first["envFrom"] == PODS[name]["containers"][0]["envFrom"]


class TestSettings:
    def test_of_the_config_map_exist(self) -> None:
        assert CONFIG.keys() <= SETTINGS
        assert EngineSettings(drain_seconds=DRAIN_SECONDS).drain_seconds == DRAIN_SECONDS

    def test_have_no_secret_among_them(self) -> None:
        assert [name for name in CONFIG if re.search("PASSWORD|SECRET|KEY|TOKEN|_URL", name)] == []
        assert [one for one in (*BASE, *CUSTOM) if one["kind"] == "Secret"] == []
        assert not any("secretGenerator" in one for one in KUSTOMIZATIONS.values())

    def test_of_secrets_are_those_that_the_page_makes(self) -> None:
        made = re.findall(r"kubectl create secret generic (\S+)((?:.*\\\n)+)", PAGE)
        names = {secret: set(re.findall(r"--from-literal=(\w+)=", given)) for secret, given in made}
        named = {
            source["secretRef"]["name"]
            for param in CONTAINERS
            for source in param.values[1].get("envFrom", ())
            if "secretRef" in source
        }
        assert named == names.keys()
        assert set.union(*names.values()) <= SETTINGS | OTHERS
        assert {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "CARILLON_ENCRYPTION_KEYS"} <= names["carillon"]
        [monitor] = of_kind("ServiceMonitor", CUSTOM).values()
        credentials = monitor["spec"]["endpoints"][0]["authorization"]["credentials"]
        assert credentials["key"] in names[credentials["name"]]

    def test_of_the_tables_owner_are_told_to_the_job_alone(self) -> None:
        told = {name for name, pod in PODS.items() if "carillon-owner" in json.dumps(pod)}
        assert told == {"migrate"}
        [container] = JOB["spec"]["template"]["spec"]["containers"]
        assert list(container["envFrom"][-1].values()) == [{"name": "carillon-owner"}]


class TestStopping:
    @pytest.mark.parametrize("name", [name for name in DEPLOYMENTS if "worker" in name])
    def test_leaves_a_worker_longer_than_it_drains(self, name: str) -> None:
        assert PODS[name]["terminationGracePeriodSeconds"] >= DRAIN_SECONDS + 5

    def test_leaves_web_longer_than_it_serves_on(self) -> None:
        [served_on] = re.findall(r"^graceful_timeout = (\d+)$", (ROOT / "gunicorn.conf.py").read_text(), re.M)
        pod = PODS["carillon-web"]
        [container] = pod["containers"]
        waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
        assert pod["terminationGracePeriodSeconds"] >= waits + int(served_on) + 5


class TestProbes:
    def probes(self, name: str) -> Iterator[tuple[str, Object]]:
        [container] = PODS[name]["containers"]
        yield from ((key, probe) for key, probe in container.items() if key.endswith("Probe"))

    def test_of_web_ask_paths_that_there_are_at_the_port_that_is_served(self) -> None:
        [container] = PODS["carillon-web"]["containers"]
        [port] = container["ports"]
        [exposed] = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
        assert port == {"name": "http", "containerPort": int(exposed)}
        assert f"0.0.0.0:{exposed}" in container["command"]
        asked = {key: probe["httpGet"] for key, probe in self.probes("carillon-web")}
        assert {get["port"] for get in asked.values()} == {"http"}
        for get in asked.values():
            resolve(get["path"])
        assert asked["readinessProbe"]["path"] == "/readyz"
        # An outage of Postgres must not restart web processes.
        assert {asked["livenessProbe"]["path"], asked["startupProbe"]["path"]} == {"/livez"}

    @pytest.mark.parametrize("name", [name for name in DEPLOYMENTS if name != "carillon-web"])
    def test_of_the_others_ping_the_name_that_they_have(self, name: str) -> None:
        [container] = PODS[name]["containers"]
        node = next(
            (one.removeprefix("--hostname=") for one in container["command"] if "--hostname=" in one),
            "celerybeat@%h",
        )
        for key, probe in self.probes(name):
            command = probe["exec"]["command"][-1]
            assert command.endswith(f"--destination {node.replace('%h', '$HOSTNAME')}"), key
        # While the broker is away nothing answers: that alone restarts none within ten minutes.
        probe = container["livenessProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] >= 600

    @pytest.mark.parametrize("name", [name for name in DEPLOYMENTS if name != "carillon-web"])
    def test_and_commands_are_such_as_celery_takes(self, name: str) -> None:
        [container] = PODS[name]["containers"]
        ping = container["readinessProbe"]["exec"]["command"][-1]
        for line in (container["command"], ping.split()):
            program, app, command, *options = line
            assert (program, app) == ("celery", "--app=scheduler_project")
            parser = celery.commands[command].make_parser(Context(celery.commands[command]))
            known, rest, _ = parser.parse_args(options)
            assert (rest, known.get("command", "ping")) == ([], "ping")


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
#: What two web processes tell, of which rules take the maximum.
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
        """What promtool says is wrong, where two pods tell ``series`` and each query is to answer as ``expected``."""

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
        """So that KEDA leaves the number of pods as it is."""
        assert self.ask(tmp_path, away, dict.fromkeys(QUERIES)) == ""


class TestKustomizations:
    def test_each_stand_in_the_page(self) -> None:
        folders = {path.parent.relative_to(KUBERNETES) for path in KUSTOMIZATIONS}
        assert [folder for folder in folders if f"{folder}" not in PAGE] == []


def _kubectl_lacks() -> str:
    """Why nothing can be built here, or an empty text."""
    if not shutil.which("kubectl"):
        return "kubectl is missing: Debian's package kubernetes-client has it"
    ran = subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True)
    known = json.loads(ran.stdout)["clientVersion"]
    if (int(known["major"]), int(re.match(r"\d+", known["minor"])[0])) < (1, 22):
        return f"kubectl {known['gitVersion']} is too old: components came with kubectl 1.22"
    return ""


@pytest.mark.skipif(bool(_kubectl_lacks()), reason=_kubectl_lacks())
class TestWhatKustomizeBuilds:
    @pytest.fixture(scope="class", params=OVERLAYS)
    @classmethod
    def built(cls, request: pytest.FixtureRequest) -> tuple[str, list[Object]]:
        ran = subprocess.run(
            ["kubectl", "kustomize", str(KUBERNETES / request.param)], capture_output=True, text=True
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        return request.param, list(yaml.safe_load_all(ran.stdout))

    def test_is_what_kubernetes_takes(self, built: tuple[str, list[Object]]) -> None:
        custom = [one["kind"] for one in built[1] if one["kind"] in ("ScaledObject", "ServiceMonitor")]
        for one in built[1]:
            if one["kind"] not in custom:
                kubernetes_validate.validate(one, RELEASES[-1], strict=True)
        assert len(custom) == (3 if built[0] == "overlays/production" else 0)

    def test_runs_the_version_with_the_config_map_by_its_content(
        self, built: tuple[str, list[Object]]
    ) -> None:
        [config] = of_kind("ConfigMap", built[1])
        pods = [one["spec"]["template"]["spec"] for one in built[1] if one["kind"] in ("Deployment", "Job")]
        assert len(pods) == 5
        containers = [
            container for pod in pods for container in (*pod.get("initContainers", ()), *pod["containers"])
        ]
        assert {container["image"].rpartition(":")[2] for container in containers} == {VERSION}
        assert {container["envFrom"][0]["configMapRef"]["name"] for container in containers} == {config}

    def test_differs_where_the_overlay_says(self, built: tuple[str, list[Object]]) -> None:
        folder, made = built
        deployments = {name: one["spec"] for name, one in of_kind("Deployment", made).items()}
        replicas = {
            name.removeprefix("carillon-"): spec.get("replicas") for name, spec in deployments.items()
        }
        expected = {
            "base": {"web": 2, "beat": 2, "worker-webhook": 2, "worker-default": 2},
            "overlays/small": {"web": 1, "beat": 2, "worker-webhook": 1, "worker-default": 1},
            # KEDA says how many workers there are.
            "overlays/production": {"web": 2, "beat": 2, "worker-webhook": None, "worker-default": None},
        }
        assert replicas == expected[folder]
        apart = "affinity" in deployments["carillon-beat"]["template"]["spec"]
        assert apart == (folder != "overlays/small")
        namespaces = {one["metadata"].get("namespace") for one in made}
        assert namespaces == {None if folder == "base" else "carillon"}
