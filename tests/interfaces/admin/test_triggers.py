"""Triggers and dead letters: where a page leads to, and which actions it offers."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from carillon.unseen import for_people
from jobs.admin.firings import dead_letter
from jobs.admin.shared import shares as confirming
from jobs.admin.shared.cells import visible
from jobs.explain import GATE_NAMES
from jobs.models import Trigger
from tests import factories
from tests.interfaces.admin.world import CONFIRMED, World, confirm_shares, press

pytestmark = pytest.mark.django_db


class TestTriggerPage:
    def test_leads_to_its_job_its_attempts_flower_and_the_result(
        self, world: World, operator: Client
    ) -> None:
        text = operator.get(reverse("admin:jobs_trigger_change", args=[world.dead.id])).content.decode()
        celery_task_id = world.attempt.celery_task_id
        result_url = reverse("admin:django_celery_results_taskresult_change", args=[celery_task_id])
        assert reverse("admin:jobs_job_change", args=[world.job.id]) in text
        assert f"/task/{celery_task_id}" in text
        assert result_url in text
        assert "http_503" in text
        assert world.result.task_id in operator.get(result_url).content.decode()

    def test_says_why_it_waits_gate_by_gate(self, world: World, operator: Client) -> None:
        job = factories.make_job(world.tenant, overlap_policy="queue")
        other, _ = factories.make_running(job)
        trigger = factories.make_trigger(job)
        text = operator.get(reverse("admin:jobs_trigger_change", args=[trigger.id])).content.decode()
        assert "Why does it wait?" in text
        assert "1 other trigger of its job unfinished" in text
        assert reverse("admin:jobs_trigger_change", args=[other.id]) in text
        assert text.count("<tr") >= len(GATE_NAMES)
        page = operator.get(reverse("admin:jobs_job_change", args=[job.id])).content.decode()
        assert "1 other trigger of its job unfinished" in page

    def test_says_how_it_ended(self, world: World, operator: Client) -> None:
        text = operator.get(reverse("admin:jobs_trigger_change", args=[world.dead.id])).content.decode()
        assert "How did it end?" in text
        assert "its retry budget is spent (exhausted)" in text

    def test_escapes_what_came_from_outside(self, world: World, operator: Client) -> None:
        text = operator.get(reverse("admin:jobs_trigger_change", args=[world.dead.id])).content.decode()
        assert "<b>busy</b>" not in text
        assert "&lt;b&gt;busy" in text

    def test_shows_what_the_latest_attempt_printed_escaped_and_with_nothing_unseen(
        self, world: World, operator: Client
    ) -> None:
        other = factories.make_attempt(world.dead, "failed", number=8, output="x" * 2048)
        factories.make_attempt(world.dead, "failed", number=9, output="<script>\u202eevil\x9b\ttab\nline\n")
        page = operator.get(reverse("admin:jobs_trigger_change", args=[world.dead.id])).content.decode()
        assert "&lt;script&gt;\\u202eevil\\u009b\ttab\nline" in page
        assert "\u202e" not in page
        assert "xxx" not in page
        assert "2.0\u00a0KB" in page
        page = operator.get(reverse("admin:jobs_attempt_change", args=[other.id])).content.decode()
        assert "x" * 2048 in page

    def test_replays_and_cancels_one(self, world: World, operator: Client) -> None:
        press(operator, "jobs_trigger_replay", world.dead)
        assert factories.state_of(world.dead) == ("pending", "")
        press(operator, "jobs_trigger_cancel", world.dead)
        assert factories.state_of(world.dead) == ("cancelled", "requested")

    def test_dismisses_one_with_a_note(self, world: World, operator: Client) -> None:
        url = reverse("admin:jobs_trigger_dismiss", args=[world.dead.id])
        for refused in ("", " ", "x" * 501, "\N{RIGHT-TO-LEFT OVERRIDE}"):
            press(operator, "jobs_trigger_dismiss", world.dead, note=refused)
            assert not Trigger.objects.filter(dismissed_at__isnull=False).exists()
        press(operator, "jobs_trigger_dismiss", world.dead, note="The host is gone.")
        world.dead.refresh_from_db()
        assert (world.dead.state, world.dead.dismissed_note) == ("dead", "The host is gone.")
        page = operator.get(reverse("admin:jobs_trigger_change", args=[world.dead.id])).content.decode()
        assert "root dismissed it at " in page
        assert "jobs_trigger_dismiss" not in page
        assert url not in page


class TestVisible:
    @given(st.text())
    def test_is_as_the_command_line_has_it_but_for_tabs(self, text: str) -> None:
        assert visible(text) == "\t".join(for_people(part) for part in text.split("\t"))


class TestDeadLetters:
    url = "/admin/jobs/trigger/dead-letters/"

    @pytest.fixture
    def others(self, world: World) -> dict[str, Trigger]:
        return {
            "poison": factories.make_trigger(world.job, "dead", reason="poison"),
            "foreign": factories.make_trigger(None, "dead", reason="poison"),
            "running": factories.make_trigger(world.job, "running"),
            "skipped": factories.make_trigger(world.job, "skipped"),
        }

    def states(self, *triggers: Trigger) -> list[str]:
        return factories.states(triggers)

    def test_lists_the_dead_alone_with_their_last_error(
        self, world: World, others: dict[str, Trigger], operator: Client
    ) -> None:
        page = operator.get(self.url)
        assert {trigger.id for trigger in page.context["cl"].result_list} == {
            world.dead.id,
            others["poison"].id,
            others["foreign"].id,
        }
        assert "http_503" in page.content.decode()

    def test_replays_the_selected(self, world: World, others: dict[str, Trigger], operator: Client) -> None:
        selected = [str(world.dead.id), str(others["skipped"].id)]
        operator.post(self.url, {"action": "replay_selected", "_selected_action": selected, "index": "0"})
        assert self.states(world.dead, *others.values()) == ["pending", "dead", "dead", "running", "skipped"]

    def test_dismisses_the_selected_once_a_note_is_given(
        self, world: World, others: dict[str, Trigger], operator: Client
    ) -> None:
        selected = [str(world.dead.id), str(others["skipped"].id)]
        sent: dict[str, Any] = {"action": "dismiss_selected", "_selected_action": selected, "index": "0"}
        page = operator.post(self.url, sent).content.decode()
        assert f'value="{world.dead.id}"' in page
        confirmed = {**sent, f"confirmed_{world.tenant.id}": "1"}
        assert "Is required" in operator.post(self.url, confirmed | {"note": " "}).content.decode()
        assert not Trigger.objects.filter(dismissed_at__isnull=False).exists()
        assert operator.post(self.url, confirmed | {"note": "Mended since."}).status_code == 302
        assert [one.id for one in Trigger.objects.filter(dismissed_note="Mended since.")] == [world.dead.id]
        listed = {one.id for one in operator.get(self.url).context["cl"].result_list}
        assert listed == {others["poison"].id, others["foreign"].id}

    def test_dismisses_all_that_match_and_nothing_else(
        self, world: World, others: dict[str, Trigger], operator: Client
    ) -> None:
        query = f"?reason=poison&tenant__id__exact={world.tenant.id}"
        link = operator.get(self.url + query).context["actions_list"][1]["path"]
        assert "Nothing was done" in operator.post(link, {"note": "Mended since."}).content.decode()
        sent = {f"confirmed_{world.tenant.id}": "1", "note": "Mended since."}
        said = operator.post(link, sent, follow=True).content.decode()
        assert f"Dismissed 1 of {world.tenant.slug}." in said
        assert [one.id for one in Trigger.objects.filter(dismissed_by="root")] == [others["poison"].id]

    @pytest.mark.parametrize(
        ("query", "states"),
        [
            ("", ["pending", "pending", "pending"]),
            ("?reason=poison", ["dead", "pending", "pending"]),
            ("?q={job}", ["pending", "pending", "dead"]),
            ("?reason=poison&tenant__id__exact={tenant}", ["dead", "pending", "dead"]),
            ("?job_type=webhook", ["dead", "dead", "dead"]),
            ("?q=nonsense", ["dead", "dead", "dead"]),
        ],
    )
    def test_replays_all_that_match_and_nothing_else(
        self, query: str, states: list[str], world: World, others: dict[str, Trigger], operator: Client
    ) -> None:
        query = query.format(job=world.job.id, tenant=world.tenant.id)
        link = operator.get(self.url + query).context["actions_list"][0]["path"]
        assert operator.get(link).status_code == 200
        assert self.states(world.dead, others["poison"], others["foreign"]) == ["dead"] * 3
        confirm_shares(operator, link)
        assert self.states(world.dead, others["poison"], others["foreign"]) == states
        assert self.states(others["running"], others["skipped"]) == ["running", "skipped"]

    def test_takes_so_many_at_a_click_the_oldest_first(
        self, world: World, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dead_letter, "MAX_AT_ONCE", 2)
        triggers = sorted([world.dead, *factories.make_triggers(world.job, 2, "dead")], key=lambda t: t.id)
        assert "More match" in operator.get(f"{self.url}replay/").content.decode()
        confirm_shares(operator, f"{self.url}replay/")
        assert self.states(*triggers) == ["pending", "pending", "dead"]
        assert "More match" not in operator.get(f"{self.url}replay/").content.decode()
        confirm_shares(operator, f"{self.url}replay/")
        assert self.states(*triggers) == ["pending", "pending", "pending"]

    def test_those_of_a_cancelled_job_stay_and_it_is_told(self, world: World, operator: Client) -> None:
        press(operator, "jobs_job_cancel", world.job)
        page = confirm_shares(operator, f"{self.url}replay/")
        assert "cancelled or deleted" in page.content.decode()
        assert self.states(world.dead) == ["dead"]

    def test_names_each_tenant_with_its_number_before_it_replays(
        self, world: World, others: dict[str, Trigger], operator: Client
    ) -> None:
        page = operator.get(f"{self.url}replay/").content.decode()
        for trigger, number in ((world.dead, 2), (others["foreign"], 1)):
            assert re.search(rf"{trigger.tenant.slug}</td>\s*<td[^>]*><b>{number}</b>", page)

    @pytest.mark.parametrize("confirmed", [{}, {"less": 1}, {"text": "all"}])
    def test_does_nothing_that_was_not_confirmed(
        self, confirmed: dict[str, Any], world: World, others: dict[str, Trigger], operator: Client
    ) -> None:
        sent = {f"confirmed_{world.tenant.id}": number for number in confirmed.values()}
        page = operator.post(f"{self.url}replay/", sent).content.decode()
        assert "Nothing was done" in page
        assert self.states(world.dead, others["poison"], others["foreign"]) == ["dead"] * 3

    def test_above_some_number_the_tenant_is_typed(
        self, world: World, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(confirming, "MAX_UNTYPED", 0)
        sent = {f"confirmed_{world.tenant.id}": 1}
        operator.post(f"{self.url}replay/", sent)
        assert self.states(world.dead) == ["dead"]
        operator.post(f"{self.url}replay/", sent | {f"slug_{world.tenant.id}": world.tenant.slug})
        assert self.states(world.dead) == ["pending"]

    def test_viewers_cannot_replay(self, world: World, staff: Callable[..., Client]) -> None:
        client = staff("view_trigger")
        assert client.get(self.url).context["actions_list"] == []
        assert client.post(f"{self.url}replay/", CONFIRMED).status_code == 403
        client.post(
            self.url, {"action": "replay_selected", "_selected_action": [str(world.dead.id)], "index": "0"}
        )
        assert self.states(world.dead) == ["dead"]
