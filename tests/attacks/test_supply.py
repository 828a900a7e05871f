"""An attacker puts another file in the place of an installed one, or reaches the servers that come in wheels."""

import hashlib
import importlib.util
import json
import os
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest
import redis
import yaml

ROOT = Path(__file__).parent.parent.parent
LOCKED = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+(?:\[[^]]+\])?)==(?P<version>[^ ]+) *\\?$", re.MULTILINE)


def entries(path: Path) -> list[str]:
    """One locked requirement each, with its continuation lines."""
    return re.split(r"\n(?=\S)", path.read_text().strip())


class TestWhatIsInstalled:
    @pytest.mark.parametrize("path", LOCKED, ids=lambda path: path.name)
    def test_is_locked_by_version_and_hash(self, path: Path) -> None:
        loose = [entry for entry in entries(path) if not PIN.match(entry) or "--hash=sha256:" not in entry]
        assert loose == []
        assert not re.search(r"index-url|find-links|://", path.read_text())

    def test_is_installed_by_hash_alone(self) -> None:
        makefile, image = (ROOT / "Makefile").read_text(), (ROOT / "Dockerfile").read_text()
        installs = re.findall(r"^.*install.*-r requirements/.*$|^.*\(PIP\) -r .*$", makefile, re.MULTILINE)
        installs += re.findall(r"^RUN pip install.*$", image, re.MULTILINE)
        assert len(installs) == 3  # the audit, the wheel in an empty environment, the image
        assert all("--require-hashes" in line for line in installs)
        assert len(re.findall(r"\(LOCKED\) -r requirements/", makefile)) == 3
        assert re.search(r"^LOCKED := \$\(PIP\) --require-hashes$", makefile, re.MULTILINE)

    def test_is_refused_if_it_is_another_file(self, tmp_path: Path) -> None:
        """Control: the same file under its own hash is installed."""
        wheel = tmp_path / "carol-1.0-py3-none-any.whl"
        build_wheel(wheel)
        ours = subprocess.run(
            ["sha256sum", wheel], capture_output=True, text=True, check=True
        ).stdout.split()[0]
        assert install(tmp_path, wheel, ours).returncode == 0
        refused = install(tmp_path, wheel, "0" * 64)
        assert refused.returncode != 0
        assert "DO NOT MATCH" in refused.stderr


def build_wheel(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("carol.py", "")
        archive.writestr("carol-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: carol\nVersion: 1.0\n")
        archive.writestr(
            "carol-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("carol-1.0.dist-info/RECORD", "")


def install(tmp_path: Path, wheel: Path, digest: str) -> subprocess.CompletedProcess[str]:
    locked = tmp_path / "locked.txt"
    locked.write_text(f"{wheel} --hash=sha256:{digest}\n")
    target = tmp_path / f"target-{digest[:8]}"
    command = ["install", "-q", "--require-hashes", "--no-index", "--target", target]
    return subprocess.run(
        [sys.executable, "-m", "pip", *command, "-r", locked], capture_output=True, text=True, check=False
    )


class TestScriptsOfOthers:
    """Files that the console takes unchanged from npm packages, into ``jobs/static/vendor``."""

    PACKAGES = json.loads((ROOT / "requirements" / "vendored.json").read_text())

    def test_are_what_their_packages_hold_byte_for_byte_and_no_others(self) -> None:
        named = {
            Path(file).name: digest
            for package in self.PACKAGES.values()
            for file, digest in package["files"].items()
        }
        found = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (ROOT / "jobs" / "static" / "vendor").iterdir()
        }
        assert found == named

    def test_stand_in_the_table_of_dependencies_with_their_release(self) -> None:
        told = (ROOT / "docs" / "dependencies.md").read_text()
        for name, package in self.PACKAGES.items():
            assert f"| {name} {package['version']} |" in told


class TestImages:
    def test_are_of_an_exact_version_and_take_a_digest(self) -> None:
        services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
        images = [service["image"] for service in services.values() if "build" not in service]
        images += [
            service["build"]["args"]["PYTHON_IMAGE"] for service in services.values() if "build" in service
        ]
        exact = re.compile(r"\$\{[A-Z]+_IMAGE:-[a-z/]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?\}")
        assert [image for image in images if not exact.fullmatch(image)] == []
        assert "FROM ${PYTHON_IMAGE}\n" in (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def advisories() -> ModuleType:
    path = ROOT / "requirements" / "advisories.py"
    spec = importlib.util.spec_from_file_location("advisories", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestAdvisories:
    CLEAN = {"name": "a", "version": "1", "vulns": []}
    KNOWN = {"name": "b", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
    UNASKED = {"name": "c", "version": "1", "skip_reason": "not found"}

    def test_that_are_known_fail(self, advisories: ModuleType) -> None:
        code, told = advisories.judge([self.CLEAN, self.KNOWN, self.UNASKED])
        assert (code, told[0]) == (1, "b 1: CVE-1, fixed in 2")

    def test_that_nobody_could_be_asked_about_are_no_good_news(self, advisories: ModuleType) -> None:
        assert advisories.judge([self.CLEAN])[0] == 0  # control
        for answer in ([self.CLEAN, self.UNASKED], []):
            code, told = advisories.judge(answer)
            assert (code, "NOT AUDITED" in told[-1]) == (2, True)


class TestTheEmbeddedRedis:
    """Version 6.2.14 has known flaws (docs/security.md): only its owner reaches it."""

    def test_listens_on_a_socket_in_a_closed_directory_alone(self) -> None:
        url = os.environ["REDIS_URL"]
        if not url.startswith("unix://"):
            pytest.skip("the environment names another Redis")
        socket = Path(urlsplit(url).path)
        assert redis.Redis.from_url(url).config_get("port")["port"] == "0"
        assert stat.S_IMODE(socket.stat().st_mode) & 0o077 == 0
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
