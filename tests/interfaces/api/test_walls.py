"""Walls around every route: rate limits by key, headers, and nothing for other origins."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import limits
from jobs.api.calls import rates
from jobs.conf import engine_settings
from tenants.models import ApiKey
from tests.interfaces.api.caller import Caller, faulty_fields

ROOT = Path(__file__).resolve().parents[3]


class TestTheRateLimit:
    @pytest.fixture(autouse=True)
    def _few(self, settings: Any) -> None:
        """Three at once and then one in a hundred seconds, however slow this machine is."""
        settings.CARILLON = engine_settings().model_copy(
            update={"api_rate_per_second": 0.01, "api_rate_burst": 3}
        )

    def test_lets_a_burst_pass_then_says_when_to_come_again(self, owner: Caller) -> None:
        answers = [owner.get("/tenant") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [answer["RateLimit"].partition(";t=")[0] for answer in answers] == [
            '"key";r=2', '"key";r=1', '"key";r=0', '"key";r=0',
        ]  # fmt: skip
        assert answers[0]["RateLimit-Policy"] == '"key";q=3;w=300'
        refused = answers[3]
        assert refused["Content-Type"] == "application/problem+json"
        assert 1 <= int(refused["Retry-After"]) <= 100

    def test_is_a_keys_own(self, owner: Caller, outsider: Caller) -> None:
        for _ in range(4):
            last = owner.get("/tenant")
        assert last.status_code == 429
        assert outsider.get("/tenant").status_code == 200
        assert Caller(owner.tenant).get("/tenant").status_code == 200

    def test_may_be_set_by_key(self, owner: Caller) -> None:
        ApiKey.objects.filter(tenant=owner.tenant).update(rate_per_second=100)
        assert {owner.get("/tenant").status_code for _ in range(10)} == {200}

    def test_is_counted_by_each_process_alone_while_redis_is_away(
        self, owner: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        away = limits.Buckets(url="redis://127.0.0.1:1/0")
        monkeypatch.setattr(rates, "shared_buckets", lambda: away)
        answers = [owner.get("/tenant") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]

    def test_can_be_switched_off(self, owner: Caller, settings: Any) -> None:
        settings.CARILLON = engine_settings().model_copy(update={"api_rate_per_second": 0})
        assert "RateLimit" not in owner.get("/tenant")


class TestAnAnswer:
    def test_may_be_kept_framed_and_run_by_nobody(self, owner: Caller) -> None:
        for answer in (owner.get("/tenant"), owner.get("/jobs/nonsense"), Caller().get("/jobs")):
            assert answer["X-Content-Type-Options"] == "nosniff"
            assert answer["X-Frame-Options"] == "DENY"
            assert answer["Referrer-Policy"] == "same-origin"
            assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]
        assert owner.get("/tenant")["Content-Security-Policy"].startswith("default-src 'none'")
        assert owner.get("/tenant")["Cache-Control"] == "no-store"

    def test_is_json_whatever_format_the_query_asks_for(self, owner: Caller) -> None:
        for path in ("/tenant", "/events", "/jobs"):
            assert faulty_fields(owner.get(f"{path}?format=xml")) == {"format"}

    def test_invites_no_other_origin(self, owner: Caller) -> None:
        asks = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        for answer in (owner.get("/jobs", **asks), owner.call("OPTIONS", "/jobs", **asks)):
            assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        assert owner.call("OPTIONS", "/jobs", **asks).status_code == 405


class TestProduction:
    def test_passes_djangos_check_for_deployment(self, tmp_path: Path) -> None:
        given = {name: value for name, value in os.environ.items() if not name.startswith("CARILLON_")}
        environment = given | {
            "CARILLON_DATA_DIR": str(tmp_path),
            "CARILLON_HTTPS": "1",
            "ALLOWED_HOSTS": "carillon.example.org",
            "SECRET_KEY": "kJ8#" + "x7Qp!m2Z" * 8,
        }
        command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
        for keys, code in (("", 1), ("32" * 32, 0)):
            environment["CARILLON_ENCRYPTION_KEYS"] = keys
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == code, done.stderr
        assert "0 errors" in done.stdout or "no issues" in done.stdout
