"""The installation in the console: leases, upkeep, releases of processes, and settings without a secret."""

from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.conf import EngineSettings
from jobs.explain.wellbeing import wellbeing
from jobs.store.insight import clocks
from jobs.telemetry.release import release
from tests import factories
from tests.interfaces.admin.test_overview import LONG, bound_to, rows
from tests.interfaces.admin.world import World, signed_in

pytestmark = pytest.mark.django_db


def page(client: Client) -> str:
    wellbeing.forget()
    answer = client.get(reverse("installation_state"))
    assert answer.status_code == 200
    return answer.content.decode()


def announce(name: str) -> None:
    drift = clocks.Drift(name=name)
    drift.measure_if_due()
    drift.measure_if_due()


class TestThePage:
    def test_shows_who_leads(self, world: World, operator: Client) -> None:
        [[name, holder, term, left]] = rows(page(operator), "leases")
        assert (name, holder, term) == ("leader", "beat-1", "7")
        assert left.startswith("59 min") or left == "1 h"
        world.lease.expires_at = factories.now() - LONG
        world.lease.save()
        assert rows(page(operator), "leases")[0][3] == "expired"

    def test_shows_what_each_process_runs(
        self, world: World, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        announce("beat@host:1")
        text = page(operator)
        assert [row[1] for row in rows(text, "processes")] == [release()]
        assert "Not all run the same release" not in text
        monkeypatch.setattr(clocks, "release", lambda: "9.9, schema 9999")
        announce("worker1@host")
        text = page(operator)
        assert f"Not all run the same release: {release()} · 9.9, schema 9999." in text

    def test_shows_the_settings_in_force(self, world: World, operator: Client, settings: Any) -> None:
        settings.CARILLON = EngineSettings(
            history_days=7, target_rates="api.example.com=5", leader_election=False
        )
        found = {row[0]: row[1:3] for row in rows(page(operator), "settings")}
        assert found["CARILLON_HISTORY_DAYS"] == ["7", "90"]
        assert found["CARILLON_TARGET_RATES"] == ["api.example.com=5", "-"]
        assert found["CARILLON_LEADER_ELECTION"] == ["off", "on"]
        assert len(found) == len(EngineSettings.model_fields)
        assert "older than the retention of 7 days" in page(operator)

    def test_shows_no_secret(self, world: World, operator: Client) -> None:
        text = page(operator)
        told = [settings.SECRET_KEY, settings.DATABASES["default"].get("PASSWORD"), settings.METRICS_TOKEN]
        told += [*settings.ENCRYPTION_KEYS, *settings.TRAIL_KEYS]
        assert [str(secret) for secret in told if secret and str(secret) in text] == []

    def test_costs_few_statements(self, world: World, operator: Client) -> None:
        with CaptureQueriesContext(connection) as captured:
            page(operator)
        assert len(captured) <= 25

    def test_is_for_those_who_may_see_the_installation(self, world: World) -> None:
        assert "Settings in force" in page(signed_in("view_installation"))
        for client in (signed_in(), bound_to(world.tenant, "view_installation", "view_lease")):
            assert client.get(reverse("installation_state")).status_code == 403
        assert Client().get(reverse("installation_state")).status_code == 302
