"""The version has one home, ``pyproject.toml``. Other files that must name it are held to it here."""

import re
import tomllib
from datetime import date
from pathlib import Path

from jobs.telemetry.release import release, version

ROOT = Path(__file__).resolve().parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
HEADINGS = re.findall(r"^## \[(.+?)\](?: — (.+))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


class TestTheVersion:
    def test_is_semantic(self) -> None:
        assert re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", VERSION)

    def test_is_told_by_processes_with_the_schema_they_know(self) -> None:
        last = max(path.name for path in (ROOT / "jobs" / "migrations").glob("0*.py"))
        assert version() == VERSION
        assert release() == f"{VERSION}, schema {int(last[:4])}"

    def test_is_in_the_image_where_processes_read_it(self) -> None:
        assert "\nCOPY pyproject.toml ./\n" in (ROOT / "Dockerfile").read_text()

    def test_names_the_image(self) -> None:
        compose = (ROOT / "docker-compose.yml").read_text()
        assert re.findall(r"image: \$\{CARILLON_IMAGE:-(.+)\}", compose) == [f"carillon:{VERSION}"]
        manifests = (ROOT / "deploy" / "kubernetes").rglob("kustomization.yaml")
        tags = [tag for path in manifests for tag in re.findall(r"newTag: (.+)", path.read_text())]
        assert tags == [VERSION] * 2
        assert f"registry.example.org/carillon:{VERSION} " in (ROOT / "docs" / "kubernetes.md").read_text()


class TestTheChangelog:
    def test_begins_with_what_is_unreleased_then_the_version(self) -> None:
        assert HEADINGS[0] == ("Unreleased", "")
        assert HEADINGS[1][0] == VERSION

    def test_dates_each_release_and_none_twice(self) -> None:
        released = HEADINGS[1:]
        dates = [date.fromisoformat(on) for _, on in released]
        assert dates == sorted(dates, reverse=True)
        assert len({name for name, _ in released}) == len(released)
