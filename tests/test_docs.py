"""The words of README and docs, held to the code they speak of."""

import re
from pathlib import Path

import annotated_types
import pytest
import yaml
from pydantic.fields import FieldInfo

from jobs.conf import EngineSettings
from scheduler_project.environment import Platform

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def shown_default(field: FieldInfo) -> str:
    """``True`` -> `` `true` ``, ``10.0`` -> `` `10` ``, an empty collection -> ``empty``."""
    value = field.default
    if value in ((), {}):
        return "empty"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def shown_bounds(field: FieldInfo) -> str:
    lowest = highest = ""
    for rule in field.metadata:
        match rule:
            case annotated_types.Ge(ge=low):
                lowest = f"{low}"
            case annotated_types.Gt(gt=low):
                lowest = f"over {low},"
            case annotated_types.Le(le=high):
                highest = f"{high}"
            case _ if pattern := getattr(rule, "pattern", None):
                return ", ".join(f"`{choice}`" for choice in re.findall(r"\w+", pattern))
    return f"{lowest} to {highest}" if highest else ""


class TestTheSettingsTable:
    def test_shows_every_engine_setting_with_its_default_and_bounds(self) -> None:
        rows = re.findall(r"^\| `(CARILLON_\w+)` \| (.+?) \| (.*?) ?\| .+ \|$", README, re.MULTILINE)
        prefix = EngineSettings.model_config["env_prefix"]
        assert rows == [
            (f"{prefix}{name}".upper(), shown_default(field), shown_bounds(field))
            for name, field in EngineSettings.model_fields.items()
        ]

    def test_shows_every_platform_setting(self) -> None:
        names = {str(field.validation_alias) for field in Platform.model_fields.values()}
        assert {name for name in names if f"| `{name}` |" not in README} == set()


class TestTheCommandsTable:
    def test_shows_every_target_of_the_makefile(self) -> None:
        targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)) - {
            "help"
        }
        assert set(re.findall(r"^\| `make (\w+)` \|", README, re.MULTILINE)) == targets


class TestLinks:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
    def test_lead_somewhere(self, page: Path) -> None:
        links = re.findall(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == []


class TestTheDockerImage:
    def test_copies_only_what_the_ignore_file_lets_through(self) -> None:
        allowed = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
        copied = re.findall(r"^COPY (\S+) ", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        assert set(copied) == allowed


class TestTheComposeFile:
    TEXT = (ROOT / "docker-compose.yml").read_text()
    SERVICES = yaml.safe_load(TEXT)["services"]

    def test_gives_no_secret_a_default(self) -> None:
        secrets = re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|KEY|AUTH)\w*)(.*?)\}", self.TEXT)
        assert secrets
        assert all(rest.startswith(":?") for _, rest in secrets)

    def test_checks_the_health_of_everything_that_stays_up(self) -> None:
        assert {name for name, service in self.SERVICES.items() if "healthcheck" not in service} == {
            "migrate"
        }

    def test_publishes_nothing_beyond_this_machine(self) -> None:
        ports = [port for service in self.SERVICES.values() for port in service.get("ports", [])]
        assert all(port.startswith("127.0.0.1:") for port in ports)

    def test_asks_for_nothing_the_example_does_not_name(self) -> None:
        required = set(re.findall(r"\$\{(\w+):\?", self.TEXT))
        given = set(re.findall(r"^(\w+)=", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE))
        assert required == given
