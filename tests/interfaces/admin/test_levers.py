"""The console's levers: each asks first, writes once, and shows on every page that dispatch is stopped."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs.actions import levers
from jobs.models import Change, Installation, Queue
from tests.factories import dispatch, make_job, make_trigger
from tests.interfaces.admin.world import CONFIRMED, NOBODYS, PAGES, World, press, said

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("job_types")]
STOP, START = "/admin/jobs/installation/stop", "/admin/jobs/installation/start"
LIST = "/admin/jobs/installation/"
BANNER = 'id="dispatch-stopped"'


def stop(client: Client, reason: str = "Incident <42>.") -> Any:
    return client.post(reverse("admin:jobs_installation_stop"), {**CONFIRMED, "reason": reason})


def start(client: Client) -> Any:
    return client.post(reverse("admin:jobs_installation_start"), CONFIRMED)


def actors(kind: str) -> list[str]:
    return [f"{row.actor_kind} {row.actor}" for row in Change.objects.filter(kind=kind).order_by("id")]


class TestStop:
    def test_is_asked_about_and_done_on_confirmation_with_a_reason(self, operator: Client) -> None:
        asked = operator.get(reverse("admin:jobs_installation_stop"))
        assert "Stop dispatch?" in asked.content.decode()
        assert operator.post(reverse("admin:jobs_installation_stop"), CONFIRMED).status_code == 200
        assert not Installation.objects.filter(stopped_at__isnull=False).exists()
        trigger = make_trigger()
        assert said(stop(operator)) == "Dispatch is stopped."
        present = Installation.objects.get()
        assert (present.stopped_by, present.stop_reason) == ("root", "Incident <42>.")
        assert dispatch().queued == []
        assert said(start(operator)) == "Dispatch is resumed."
        assert [item.id for item in dispatch().queued] == [trigger.id]
        assert actors("installation") == ["operator root"] * 2

    def test_offers_the_button_that_fits(self, operator: Client) -> None:
        for act, shown, hidden in ((start, STOP, START), (stop, START, STOP)):
            act(operator)
            page = operator.get(LIST).content.decode()
            assert (shown in page, hidden in page) == (True, False)

    def test_refuses_a_reason_of_several_lines_in_words(self, operator: Client) -> None:
        assert "reason: " in said(stop(operator, "a\u202eb"))
        assert not Installation.objects.filter(stopped_at__isnull=False).exists()

    def test_needs_the_permission(self, staff: Callable[..., Client]) -> None:
        viewer = staff("view_installation")
        assert viewer.get(LIST).status_code == 200
        assert stop(viewer).status_code == 403
        assert said(stop(staff("change_installation"))) == "Dispatch is stopped."


class TestTheBanner:
    @pytest.mark.parametrize("page", sorted(page for page in PAGES if page not in NOBODYS))
    def test_stands_on_every_page_until_it_is_lifted(self, page: str, world: World, operator: Client) -> None:
        levers.change_installation(changes={"dispatch": "stopped", "reason": "Incident <42>."})
        answer = operator.get(world.url(page))
        text = answer.content.decode()
        if "<!DOCTYPE html>" not in text:
            return  # a dialog within a page
        assert BANNER in text
        assert "Incident &lt;42&gt;." in text
        levers.change_installation(changes={"dispatch": "running"})
        assert BANNER not in operator.get(world.url(page)).content.decode()

    @pytest.mark.parametrize(
        "name", ["index", "auth_user_changelist", "auth_user_add", "auth_group_changelist"]
    )
    def test_stands_on_the_other_pages_too(self, name: str, operator: Client) -> None:
        stop(operator)
        assert BANNER in operator.get(reverse(f"admin:{name}")).content.decode()

    def test_is_seen_by_staff_without_the_permission_but_has_no_link(
        self, staff: Callable[..., Client], operator: Client
    ) -> None:
        stop(operator)
        text = staff("view_job").get(reverse("admin:jobs_job_changelist")).content.decode()
        assert BANNER in text
        assert "Let it go on" not in text

    def test_is_not_shown_to_strangers(self, operator: Client) -> None:
        stop(operator)
        assert "Incident" not in Client().get(reverse("admin:login")).content.decode()


class TestJobTypes:
    def test_are_paused_with_a_reason_and_resumed(self, world: World, operator: Client) -> None:
        page = "jobs_queue_pause"
        assert press(operator, page, world.queue).status_code == 200
        assert said(press(operator, page, world.queue, reason="Bad deploy.")) == "Paused."
        world.queue.refresh_from_db()
        assert (world.queue.paused_by, world.queue.pause_reason) == ("root", "Bad deploy.")
        make_trigger(make_job(job_type="celery_task"))
        assert dispatch(types=["celery_task"]).queued == []
        assert said(press(operator, "jobs_queue_resume", world.queue)) == "Resumed."
        assert len(dispatch(types=["celery_task"]).queued) == 1
        assert actors("job_type") == ["operator root"] * 2

    @pytest.mark.parametrize(("typed", "cap"), [("4", 4), ("", None)])
    def test_are_capped(self, typed: str, cap: int | None, world: World, operator: Client) -> None:
        Queue.objects.update(max_in_flight=9)
        press(operator, "jobs_queue_cap", world.queue, max_in_flight=typed)
        assert Queue.objects.get().max_in_flight == cap

    @pytest.mark.parametrize("typed", ["0", "-1", "1000001", "four", "1_0", "\u0664"])
    def test_are_not_capped_at_what_is_no_cap(self, typed: str, world: World, operator: Client) -> None:
        assert press(operator, "jobs_queue_cap", world.queue, max_in_flight=typed).status_code == 200
        assert Queue.objects.get().max_in_flight is None

    def test_show_the_buttons_that_fit_and_what_is_in_flight(self, world: World, operator: Client) -> None:
        make_trigger(make_job(job_type="celery_task"), "running")
        url = world.url("jobs_queue_change")
        before = operator.get(url).content.decode()
        press(operator, "jobs_queue_pause", world.queue, reason="Bad deploy.")
        after = operator.get(url).content.decode()
        for verb, text in (("pause", before), ("resume", after)):
            other = "resume" if verb == "pause" else "pause"
            assert f"celery_5Ftask/{verb}" in text
            assert f"celery_5Ftask/{other}" not in text
        assert "Bad deploy." in after

    def test_need_the_permission(self, world: World, staff: Callable[..., Client]) -> None:
        for verb, typed in (("pause", {"reason": "x"}), ("resume", {}), ("cap", {"max_in_flight": "4"})):
            assert press(staff("view_queue"), f"jobs_queue_{verb}", world.queue, **typed).status_code == 403
        assert Queue.objects.get().paused_at is None
