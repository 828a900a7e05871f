"""The manifests in ``deploy/kubernetes``, and the sources that they are held against."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.conf import EngineSettings
from scheduler_project.environment import Platform

ROOT = Path(__file__).parents[3]
KUBERNETES = ROOT / "deploy" / "kubernetes"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
#: The oldest and the newest release of Kubernetes that the manifests are held to.
RELEASES = ("1.30", "1.37")
OVERLAYS = ("base", "overlays/small", "overlays/production")
#: Variables of pods from which others are made: they are no settings.
EXPANDED = {"POD_IP", "PUBLIC_HOSTS"}
#: Further variables that gunicorn.conf.py and the commands read.
OTHERS = {"WEB_CONCURRENCY", "POSTGRES_APP_PASSWORD"}
#: The number of calls that a process of the webhook pool has in flight (deploy/kubernetes/components/keda).
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
