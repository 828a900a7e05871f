"""``deploy/kubernetes/base``: everything it names exists, and its bounds fit together."""

import json
import re
from collections.abc import Iterator

import kubernetes_validate
import pytest
from celery.bin.celery import celery
from click import Context
from django.urls import resolve

from jobs.conf import EngineSettings
from tests.interfaces.kubernetes.manifests import (
    BASE,
    CONFIG,
    CONTAINERS,
    CUSTOM,
    DEPLOYMENTS,
    DOCKERFILE,
    DRAIN_SECONDS,
    EXPANDED,
    JOB,
    KUBERNETES,
    KUSTOMIZATIONS,
    OTHERS,
    PAGE,
    PODS,
    RELEASES,
    ROOT,
    SETTINGS,
    Object,
    of_kind,
)


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
        # While the broker is away no process answers. That alone must not restart any within ten minutes.
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
