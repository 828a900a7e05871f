"""The output of kustomize for ``deploy/kubernetes``, which Kubernetes takes."""

import json
import re
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

from tests.interfaces.kubernetes.manifests import (
    KUBERNETES,
    KUSTOMIZATIONS,
    OVERLAYS,
    PAGE,
    RELEASES,
    VERSION,
    Object,
    of_kind,
)


class TestKustomizations:
    def test_each_stand_in_the_page(self) -> None:
        folders = {path.parent.relative_to(KUBERNETES) for path in KUSTOMIZATIONS}
        assert [folder for folder in folders if f"{folder}" not in PAGE] == []


def _kubectl_lacks() -> str:
    """The reason why nothing can be built here, or an empty text."""
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
            # KEDA sets the number of workers.
            "overlays/production": {"web": 2, "beat": 2, "worker-webhook": None, "worker-default": None},
        }
        assert replicas == expected[folder]
        apart = "affinity" in deployments["carillon-beat"]["template"]["spec"]
        assert apart == (folder != "overlays/small")
        namespaces = {one["metadata"].get("namespace") for one in made}
        assert namespaces == {None if folder == "base" else "carillon"}
