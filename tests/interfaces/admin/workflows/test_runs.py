"""Runs in the console: seen task by task as they go on, paused, resumed, cancelled and retried."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.admin.workflows import rows
from jobs.models import Change, WorkflowRun
from tests.interfaces.admin.workflows.pages import RUN, WORKFLOW, buttons, fragment, shown, task_rows
from tests.interfaces.admin.world import CONFIRMED, World, press, said, signed_in
from tests.workflows.playing import begin, claim_due, make_workflow, play, states

pytestmark = pytest.mark.django_db(transaction=True)


class TestARun:
    def test_shows_each_task_with_its_state_and_what_it_waits_for(
        self, world: World, operator: Client
    ) -> None:
        found = task_rows(shown(operator, RUN, world.run))
        assert {key: row["state"] for key, row in found.items()} == {"extract": "pending", "load": "waiting"}
        assert "waits for extract" in shown(operator, RUN, world.run)
        play(world.run, {"extract": "dead"})
        found = task_rows(shown(operator, RUN, world.run))
        assert {key: (row["state"], row["icon"]) for key, row in found.items()} == {
            "extract": ("failed", "close"),
            "load": ("skipped", "skip_next"),
        }

    def test_has_a_bar_for_the_time_in_which_a_task_waited_and_ran(
        self, world: World, operator: Client
    ) -> None:
        claim_due()
        text = shown(operator, RUN, world.run)
        kinds = re.findall(r"gantt-bar gantt-(\w+)", text)
        assert kinds == ["waits", "running"]
        for left, width in re.findall(r"left: ([\d.]+)%; width: ([\d.]+)%", text):
            assert 0 <= float(left) <= float(left) + float(width) <= 100.01

    def test_is_paused_resumed_cancelled_and_retried_in_the_operators_name(
        self, world: World, operator: Client
    ) -> None:
        Change.objects.all().delete()
        assert buttons(operator, world.run) == {"pause", "cancel"}
        assert said(press(operator, f"{RUN}_pause", world.run)) == "Paused."
        assert buttons(operator, world.run) == {"resume", "cancel"}
        assert said(press(operator, f"{RUN}_resume", world.run)) == "Resumed."
        assert "asked to stop" in said(press(operator, f"{RUN}_cancel", world.run))
        assert buttons(operator, world.run) == {"retry"}
        assert "has ended" in said(press(operator, f"{RUN}_pause", world.run))
        assert "unsuccessful tasks" in said(press(operator, f"{RUN}_retry", world.run))
        assert play(world.run) == [["extract"], ["load"]]
        told = Change.objects.filter(kind="workflow").order_by("id")
        assert [(one.action, one.actor) for one in told] == [
            ("updated", "root"),
            ("updated", "root"),
            ("cancelled", "root"),
            ("replayed", "root"),
        ]

    def test_is_retried_from_the_tasks_that_are_chosen(self, world: World, operator: Client) -> None:
        play(world.run)
        url = reverse(f"admin:{RUN}_retry", args=[world.run.id])
        asked = operator.get(f"{url}?tasks=load").content.decode()
        assert re.search(r'value="load"[^>]*selected', asked)
        assert "choose the tasks" in operator.post(url, CONFIRMED).content.decode()
        refused = operator.post(url, {**CONFIRMED, "tasks": ["nowhere"]}).content.decode()
        assert "nowhere is not one of the available choices" in refused
        assert states(world.run) == {"extract": "succeeded", "load": "succeeded"}
        assert "Goes on from load." in said(operator.post(url, {**CONFIRMED, "tasks": ["load"]}))
        assert play(world.run) == [["load"]]

    def test_is_only_to_be_seen_without_the_permission(self, world: World) -> None:
        viewer = signed_in("view_workflowrun", "view_workflow")
        assert buttons(viewer, world.run) == set()
        assert fragment(viewer, world.run).status_code == 200
        for verb in ("pause", "resume", "cancel", "retry"):
            url = reverse(f"admin:{RUN}_{verb}", args=[world.run.id])
            assert viewer.post(url, CONFIRMED).status_code == 403
        url = reverse(f"admin:{WORKFLOW}_run_now", args=[world.workflow.id])
        assert viewer.post(url, CONFIRMED).status_code == 403
        assert states(world.run) == {"extract": "started", "load": "waiting"}

    def test_takes_no_write_without_a_token_against_forgery(self, world: World, operator: Client) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = operator.cookies
        for verb in ("pause", "cancel"):
            url = reverse(f"admin:{RUN}_{verb}", args=[world.run.id])
            assert strict.post(url, CONFIRMED).status_code == 403
        world.run.refresh_from_db()
        assert (world.run.state, world.run.paused_at) == ("running", None)

    def test_is_found_by_workflow_and_state(self, world: World, operator: Client) -> None:
        play(world.run)
        other = begin(make_workflow(world.tenant, tasks=["only"]))
        play(other, {"only": "dead"})
        again = begin(world.workflow)
        url = reverse(f"admin:{RUN}_changelist")
        for query, found in (
            ("", [again, other, world.run]),
            (f"?workflow__id__exact={world.workflow.id}", [again, world.run]),
            (f"?workflow__id__exact={other.workflow_id}", [other]),
            (f"?q={other.workflow_id}", [other]),
            ("?state__exact=succeeded", [world.run]),
            (f"?tenant__id__exact={world.tenant.id}&state__exact=failed", [other]),
            (f"?q={again.id}", [again]),
        ):
            listed = operator.get(url + query).context["cl"].result_list
            assert [run.id for run in listed] == [run.id for run in found], query


class TestProgress:
    def test_is_fetched_again_until_the_run_has_ended_and_then_the_page_is(
        self, world: World, operator: Client
    ) -> None:
        first = fragment(operator, world.run, "?seen=running")
        assert "hx-trigger" in first.content.decode()
        play(world.run)
        assert fragment(operator, world.run, "?seen=running")["HX-Refresh"] == "true"
        ended = fragment(operator, world.run)
        assert "every 2s" not in ended.content.decode()
        assert {row["state"] for row in task_rows(ended.content.decode()).values()} == {"succeeded"}

    def test_shows_the_tasks_of_one_state_and_then_draws_no_graph(
        self, world: World, operator: Client
    ) -> None:
        text = fragment(operator, world.run, "?only=waiting").content.decode()
        assert {key: row["after"] for key, row in task_rows(text).items()} == {"load": ""}
        assert len(task_rows(fragment(operator, world.run, "?only=<b>").content.decode())) == 2

    def test_asks_as_much_for_a_thousand_tasks_as_for_one_and_has_them_in_its_table(
        self, world: World, operator: Client
    ) -> None:
        def statements(run: WorkflowRun) -> tuple[int, str]:
            with CaptureQueriesContext(connection) as asked:
                text = shown(operator, RUN, run)
            return len(asked), text

        one = begin(make_workflow(world.tenant, tasks=["only"]))
        statements(one)
        few, _ = statements(one)
        fan = [("first", f"task_{number}") for number in range(999)]
        world.tenant.max_jobs = 10_000
        world.tenant.save(update_fields=["max_jobs"])
        many, text = statements(begin(make_workflow(world.tenant, *fan)))
        assert many == few
        assert len(task_rows(text)) == 1000
        assert not any(row["after"] for row in task_rows(text).values())
        assert f"drawn up to {rows.MAX_DRAWN} tasks" in text
        assert "every 10s" in text
