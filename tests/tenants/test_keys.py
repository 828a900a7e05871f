"""Keys found good a moment ago: kept for less than a second, and never past their end."""

import time
import urllib.error
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from stage.waiting import wait_until
from tenants import actions, keys
from tenants.keys import authenticate, authenticate_recently
from tenants.models import ApiKey, Tenant
from tests.cluster.web import serving
from tests.factories import HOUR, make_job, make_tenant, now
from tests.interfaces.api.caller import Caller

pytestmark = pytest.mark.django_db
Pass = Callable[[float], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Pass:
    """``later(0.5)``: half a second passes for this process."""
    passed = [time.monotonic()]
    monkeypatch.setattr(keys, "MAX_AGE_SECONDS", 0.8)
    monkeypatch.setattr(keys.time, "monotonic", lambda: passed[0])

    def elapse(seconds: float) -> None:
        passed[0] += seconds

    return elapse


def key_of(**options: Any) -> tuple[Any, str]:
    return actions.create_api_key(tenant=make_tenant(), name="tests", scopes=["read", "write"], **options)


class TestAKeptKey:
    def test_is_asked_about_once(self, later: Pass) -> None:
        key, token = key_of()
        assert authenticate_recently(token) == key
        with CaptureQueriesContext(connection) as queries:
            later(0.7)
            assert authenticate_recently(token) == key
        assert len(queries) == 0

    def test_is_refused_within_a_second_of_its_revocation(self, later: Pass) -> None:
        key, token = key_of()
        assert authenticate_recently(token)
        actions.revoke_api_key(key=key)
        later(0.81)
        assert authenticate_recently(token) is None

    def test_has_no_more_time_for_being_used(self, later: Pass) -> None:
        key, token = key_of()
        assert authenticate_recently(token)
        actions.revoke_api_key(key=key)
        for _ in range(4):
            later(0.19)
            assert authenticate_recently(token)
        later(0.19)
        assert authenticate_recently(token) is None

    def test_ends_when_it_expires_to_the_moment(
        self, later: Pass, clock: Callable[[timedelta], None]
    ) -> None:
        _, token = key_of(expires_at=now() + HOUR)
        clock(HOUR - timedelta(seconds=0.5))
        assert authenticate_recently(token)
        clock(HOUR)
        later(0.5)
        assert authenticate_recently(token) is None

    def test_is_no_other_secret_of_its_prefix(self, later: Pass) -> None:
        _, token = key_of()
        assert authenticate_recently(token)
        assert authenticate_recently(token[:-1] + ("a" if token[-1] != "a" else "b")) is None

    def test_is_not_kept_once_it_was_refused(self, later: Pass) -> None:
        key, token = key_of()
        Tenant.objects.filter(id=key.tenant_id).update(status="suspended")
        assert authenticate_recently(token) is None
        Tenant.objects.filter(id=key.tenant_id).update(status="active")
        assert authenticate_recently(token)

    def test_makes_room_for_others(self, later: Pass, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(keys, "MAX_KEYS", 3)
        tokens = [key_of()[1] for _ in range(5)]
        assert all(authenticate_recently(token) for token in tokens * 2)
        assert len(keys._kept) <= 3


class TestAKeyThatIsLookedUp:
    def test_comes_with_its_tenant_as_their_rows_are(self) -> None:
        _, token = key_of(rate_per_second=7, expires_at=now() + HOUR)
        Tenant.objects.update(notify={"on": ["dead"]}, queues=["a", "b.*"], rate_burst=3)
        with CaptureQueriesContext(connection) as queries:
            found = authenticate(token)
            assert found is not None
            assert found.tenant.slug
        # The look-up, and the note of the key's use.
        assert len(queries) == 2
        kept = ApiKey.objects.select_related("tenant").get()
        for one, other in ((found, kept), (found.tenant, kept.tenant)):
            for field in type(one)._meta.concrete_fields:
                if field.name != "last_used_at":
                    assert getattr(one, field.attname) == getattr(other, field.attname), field

    def test_of_the_installation_has_no_tenant(self) -> None:
        _, token = actions.create_api_key(tenant=None, name="tests", scopes=["operator"])
        found = authenticate(token)
        assert found is not None
        assert found.tenant is None


class TestTheApi:
    def test_lists_jobs_in_one_round_trip(self, later: Pass) -> None:
        caller = Caller(make_tenant())
        make_job(caller.tenant)
        assert caller.get("/jobs").status_code == 200
        with CaptureQueriesContext(connection) as queries:
            assert caller.get("/jobs").json()["results"][0]["next_fire_at"]
        assert len(queries) == 1

    def test_shows_what_stands_in_the_tenants_row_at_once(self, later: Pass) -> None:
        caller = Caller(make_tenant())
        assert caller.get("/jobs").status_code == 200
        put = caller.put("/tenant/notify", {"on": ["dead"], "url": "https://ops.example/hook"})
        assert put.status_code == 200, put.content
        assert caller.get("/tenant").json()["notify"] == put.json()


@pytest.mark.django_db(transaction=True)
def test_a_web_process_refuses_a_revoked_key_within_a_second(tmp_path: Path) -> None:
    key, token = key_of()
    with serving(tmp_path / "web.log") as web:
        for _ in range(20):
            assert web.ask("/api/v1/jobs", key=token).status == 200
        actions.revoke_api_key(key=key)
        revoked_at = time.monotonic()

        def refused() -> bool:
            asked_at = time.monotonic()
            try:
                web.ask("/api/v1/jobs", key=token)
            except urllib.error.HTTPError as error:
                return error.code == 401
            assert asked_at < revoked_at + 1
            return False

        wait_until(refused, timeout=5)
