"""Operations in the console: operators see, pause, resume and stop them, even those that others began."""

import pytest
from django.test import Client
from django.urls import reverse

from jobs.actions.bulk.operations import begin_operation
from jobs.models import Change, Operation
from tests import factories
from tests.interfaces.admin.world import CONFIRMED, World, press, said, signed_in

pytestmark = pytest.mark.django_db
PAGE = "jobs_operation"


def status(world: World, client: Client) -> str:
    listed = client.get(reverse(f"admin:{PAGE}_changelist")).content.decode()
    found = [
        word
        for word in ("running", "paused", "cancelled", "finished")
        if f">{word}<" in "".join(listed.split())
    ]
    assert len(found) == 1, found
    return found[0]


class TestAnOperation:
    def test_is_shown_with_what_it_acts_on_and_how_far_it_has_come(
        self, world: World, operator: Client
    ) -> None:
        Operation.objects.filter(id=world.operation.id).update(
            done=41, refused=1, refusals=[{"id": "x", "detail": "The job is <b>cancelled</b>."}]
        )
        edit = begin_operation(
            tenant=world.tenant, verb="edit", wanted={}, changes={"priority": "high"}, all_or_nothing=True
        )
        text = operator.get(reverse(f"admin:{PAGE}_change", args=[world.operation.id])).content.decode()
        for told in ("priority=low", "41", "ck_1 ci", f"object={world.operation.id}"):
            assert told in text
        assert "<b>cancelled</b>" not in text
        text = operator.get(reverse(f"admin:{PAGE}_change", args=[edit.id])).content.decode()
        assert "high" in text

    def test_is_paused_resumed_and_stopped_in_the_operators_name(
        self, world: World, operator: Client
    ) -> None:
        Change.objects.all().delete()
        assert said(press(operator, f"{PAGE}_pause", world.operation)) == "Paused."
        assert status(world, operator) == "paused"
        assert said(press(operator, f"{PAGE}_resume", world.operation)) == "Resumed."
        assert status(world, operator) == "running"
        assert said(press(operator, f"{PAGE}_stop", world.operation)) == "Stopped."
        assert status(world, operator) == "cancelled"
        assert "already ended" in said(press(operator, f"{PAGE}_pause", world.operation))
        assert {(row.kind, row.actor_kind) for row in Change.objects.all()} == {("operation", "operator")}
        assert Change.objects.count() == 3

    @pytest.mark.parametrize(
        ("done", "fitting"),
        [((), {"pause", "stop"}), (("pause",), {"resume", "stop"}), (("stop",), set())],
    )
    def test_has_the_buttons_that_can_succeed(
        self, world: World, operator: Client, done: tuple[str, ...], fitting: set[str]
    ) -> None:
        for verb in done:
            press(operator, f"{PAGE}_{verb}", world.operation)
        text = operator.get(reverse(f"admin:{PAGE}_change", args=[world.operation.id])).content.decode()
        urls = {
            verb: reverse(f"admin:{PAGE}_{verb}", args=[world.operation.id])
            for verb in ("pause", "resume", "stop")
        }
        assert {verb for verb, url in urls.items() if url in text} == fitting

    def test_is_only_to_be_seen_without_the_permission(self, world: World) -> None:
        viewer = signed_in("view_operation")
        assert viewer.get(reverse(f"admin:{PAGE}_change", args=[world.operation.id])).status_code == 200
        for verb in ("pause", "resume", "stop"):
            url = reverse(f"admin:{PAGE}_{verb}", args=[world.operation.id])
            assert viewer.post(url, CONFIRMED).status_code == 403
        world.operation.refresh_from_db()
        assert (world.operation.paused_at, world.operation.finished_at) == (None, None)

    def test_is_found_among_those_that_are_unfinished(self, world: World, operator: Client) -> None:
        ended = begin_operation(tenant=factories.make_tenant(), verb="pause", wanted={})
        press(operator, f"{PAGE}_stop", ended)
        url = reverse(f"admin:{PAGE}_changelist")
        rows = operator.get(url, {"status": "unfinished"}).context["cl"].result_list
        assert [row.id for row in rows] == [world.operation.id]
        assert len(operator.get(url).context["cl"].result_list) == 2
