"""The console's rules for targets: each button asks first and writes once, in the operator's name."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs.models import Change, TargetRule
from tests.factories import dispatch, make_job, make_trigger
from tests.interfaces.admin.world import CONFIRMED, World, press, said

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
HOST = "api.example.com"


def press_on_list(client: Client, verb: str, **typed: str) -> Any:
    return client.post(reverse(f"admin:jobs_targetrule_{verb}"), {**CONFIRMED, **typed})


class TestTargets:
    def test_are_paused_with_a_reason_and_resumed(self, world: World, operator: Client) -> None:
        make_trigger(make_job(target=HOST))
        assert press(operator, "jobs_targetrule_pause", world.target).status_code == 200
        assert said(press(operator, "jobs_targetrule_pause", world.target, reason="It is down.")) == "Paused."
        world.target.refresh_from_db()
        assert (world.target.paused_by, world.target.pause_reason) == ("root", "It is down.")
        assert dispatch().queued == []
        assert "It is down." in operator.get(world.url("jobs_targetrule_change")).content.decode()
        assert said(press(operator, "jobs_targetrule_resume", world.target)) == "Resumed."
        assert len(dispatch().queued) == 1
        rows = Change.objects.filter(kind="target", action="updated")
        assert [f"{row.actor_kind} {row.actor}" for row in rows] == ["operator root"] * 2

    def test_are_made_from_the_list(self, world: World, operator: Client) -> None:
        done = press_on_list(operator, "pause_host", host="*.Example.org", reason="It is down.")
        assert said(done) == "Paused."
        assert said(press_on_list(operator, "limit_host", host="b.example", max_in_flight="4")) == "Limited."
        rules = TargetRule.objects.exclude(id=world.target.id).values_list(
            "name", "pause_reason", "max_in_flight"
        )
        assert set(rules) == {("*.example.org", "It is down.", None), ("b.example", "", 4)}

    def test_refuse_what_is_no_host_in_words(self, world: World, operator: Client) -> None:
        assert "pattern: " in said(press_on_list(operator, "pause_host", host="http://x", reason="x"))
        assert TargetRule.objects.count() == 1

    def test_are_limited_and_removed(self, world: World, operator: Client) -> None:
        press(operator, "jobs_targetrule_limit", world.target, rate_per_second="0.5", max_in_flight="")
        world.target.refresh_from_db()
        assert (world.target.rate_per_second, world.target.max_in_flight) == (0.5, None)
        assert said(press(operator, "jobs_targetrule_remove", world.target)) == "Removed."
        assert not TargetRule.objects.exists()

    @pytest.mark.parametrize("typed", ["-1", "fast", "1e9", "nan"])
    def test_are_not_limited_to_what_is_no_rate(self, typed: str, world: World, operator: Client) -> None:
        press(operator, "jobs_targetrule_limit", world.target, rate_per_second=typed)
        assert TargetRule.objects.get().rate_per_second == 5

    def test_need_the_permission(self, world: World, staff: Callable[..., Client]) -> None:
        viewer = staff("view_targetrule")
        for verb in ("pause", "resume", "limit", "remove"):
            assert press(viewer, f"jobs_targetrule_{verb}", world.target, reason="x").status_code == 403
        assert press_on_list(viewer, "pause_host", host="x", reason="x").status_code == 403
        assert TargetRule.objects.get().paused_at is None
