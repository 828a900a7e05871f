"""Attacks by callers without a key: to make the web processes compute, and write to the log."""

import io
import logging
from typing import Any

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from jobs import telemetry
from jobs.api.schema import DescriptionView

JSON = "application/json"


class TestTheApisDescription:
    @pytest.fixture(autouse=True)
    def _new_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(DescriptionView, "_built", {})

    def test_is_built_once_for_whoever_asks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        built = []
        real = SchemaGenerator.get_schema

        def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
            built.append(1)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(SchemaGenerator, "get_schema", counted)
        client = Client()
        asked = ("/api/schema", "/api/schema?lang=de", "/api/schema?format=json", "/api/schema?version=9")
        for number in range(20):
            for url in asked:
                accept = f"application/json; indent={number}"
                assert client.get(url, headers={"Accept": accept}).status_code in (200, 406)
        assert 1 <= len(built) <= 4  # at most one for each kind of document

    def test_is_not_sent_again_to_whoever_has_it(self) -> None:
        client = Client()
        first = client.get("/api/schema", headers={"Accept": JSON})
        assert first.json()["openapi"].startswith("3.")
        assert len(first.content) > 100_000
        again = client.get("/api/schema", headers={"Accept": JSON, "If-None-Match": first["ETag"]})
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
        other = client.get("/api/schema", headers={"If-None-Match": first["ETag"]})
        assert (other.status_code, other["ETag"] != first["ETag"]) == (200, True)
        assert b"openapi: 3." in other.content


class TestABadHost:
    @pytest.mark.parametrize("log_format", telemetry.FORMATS)
    @pytest.mark.parametrize("path", ["/api/v1/jobs", "/admin/", "/livez"])
    def test_is_one_line_of_the_log(self, log_format: str, path: str, settings: Any) -> None:
        settings.ALLOWED_HOSTS = ["testserver"]
        lines = io.StringIO()
        handler = logging.StreamHandler(lines)
        handler.setFormatter(telemetry.formatter(log_format))
        logging.getLogger().addHandler(handler)
        try:
            answer = Client().get(path, headers={"Host": "evil.example\x1b[31m" + "x" * 3_000})
        finally:
            logging.getLogger().removeHandler(handler)
        assert answer.status_code == 400
        written = lines.getvalue()
        assert "Traceback" not in written
        assert "\x1b" not in written
        assert written.count("\n") == 1
        assert len(written) < 500
        assert "evil.example" in written
