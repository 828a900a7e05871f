"""Workers and queues in the console: how busy they are, and the commands they take."""

from typing import Any

import pytest
from celery import current_app
from django.test import Client
from django.urls import reverse
from kombu.exceptions import OperationalError

from jobs.explain.wellbeing import wellbeing
from jobs.models import Change
from jobs.store.insight import workers
from tests import factories
from tests.interfaces.admin.test_overview import LONG, bound_to, rows
from tests.interfaces.admin.world import World, said, signed_in

pytestmark = pytest.mark.django_db
NAME = "worker1@host-a"


class Heard:
    """Celery's remote control: which worker was told which command. ``answers``: whether the worker answers."""

    def __init__(self) -> None:
        self.answers, self.told = True, []
        self.queues = ["jobs.noop", "jobs.message"]

    def inspect(self, *, destination: list[str], timeout: float) -> "Heard":
        self.asked = destination
        return self

    def active_queues(self) -> dict[str, Any] | None:
        return {self.asked[0]: [{"name": name} for name in self.queues]} if self.answers else None

    def cancel_consumer(self, queue: str, *, destination: list[str], reply: bool, timeout: float) -> None:
        self.told.append(("cancel_consumer", queue, *destination))

    def add_consumer(self, queue: str, *, destination: list[str], reply: bool, timeout: float) -> None:
        self.told.append(("add_consumer", queue, *destination))

    def shutdown(self, *, destination: list[str]) -> None:
        self.told.append(("shutdown", *destination))


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    heard = Heard()
    # It is a cached property of the application.
    monkeypatch.setitem(current_app._get_current_object().__dict__, "control", heard)
    return heard


@pytest.fixture
def worker() -> str:
    workers.announce(name=NAME, queues=["jobs.message", "jobs.noop"], concurrency=4, busy=3, process="7-a")
    return NAME


def url(verb: str, name: str = NAME) -> str:
    return f"{reverse('tell_worker', args=[verb])}?worker={name}"


class TestThePage:
    @pytest.mark.parametrize("page", ["workers", "worker_figures"])
    def test_shows_how_busy_each_worker_is(
        self, page: str, world: World, worker: str, operator: Client
    ) -> None:
        for _ in range(2):
            factories.make_trigger(world.job, "running", worker=NAME, queued_at=factories.now() - LONG)
        workers.announce(name="crm@7", queues=["jobs.sync@7"], concurrency=2)
        text = operator.get(reverse(page)).content.decode()
        pull, mine = rows(text, "workers")
        assert mine[:6] == ["worker1", "host-a", "message, noop", "3 of 4", "2", "2 h"]
        assert mine[6].endswith("s ago")
        assert mine[7].split() == ["Flower", "·", "Quiet…", "·", "Stop…"]
        assert pull[0] == "crm (pull worker)"
        assert pull[7] == ""

    def test_shows_queues_and_leads_to_the_levers_of_each(
        self, world: World, worker: str, operator: Client
    ) -> None:
        world.queue.rate = 12.5
        world.queue.save()
        text = operator.get(reverse("workers")).content.decode()
        found = {row[0]: row for row in rows(text, "queues")}
        assert found["celery_task"][2:4] == ["16", "12.5"]
        assert found["celery_task"][9] == "runs · pause or cap…"
        assert found["noop"][5:7] == ["1", "4"]

    def test_offers_nothing_to_who_may_only_look(self, world: World, worker: str) -> None:
        viewer = signed_in("view_queue")
        assert "Quiet…" not in viewer.get(reverse("workers")).content.decode()
        for verb in ("quiet", "resume", "stop"):
            assert viewer.get(url(verb)).status_code == viewer.post(url(verb)).status_code == 403

    @pytest.mark.parametrize("page", ["workers", "worker_figures"])
    def test_is_not_for_operators_of_some_tenants(self, page: str, world: World, worker: str) -> None:
        bound = bound_to(world.tenant, "view_queue", "change_installation")
        assert bound.get(reverse(page)).status_code == 403
        assert bound.post(url("stop")).status_code == 403
        assert signed_in().get(reverse(page)).status_code == 403
        assert Client().get(reverse(page)).status_code == 302


class TestAWorker:
    def test_is_told_nothing_until_it_is_confirmed(
        self, world: World, worker: str, operator: Client, heard: Heard
    ) -> None:
        page = operator.get(url("stop"))
        assert NAME in page.content.decode()
        assert heard.told == []

    def test_takes_nothing_more(self, world: World, worker: str, operator: Client, heard: Heard) -> None:
        answer = operator.post(url("quiet"))
        assert said(answer) == f"Worker {NAME} takes no more messages."
        assert heard.told == [("cancel_consumer", f"jobs.{name}", NAME) for name in ("message", "noop")]
        [change] = Change.objects.filter(object_id=f"worker {NAME}")
        assert (change.kind, change.actor, change.tenant_id) == ("installation", "root", None)
        assert change.changes == {"queues": [["jobs.message", "jobs.noop"], []]}

    def test_takes_work_again_from_the_queues_that_it_took_from(
        self, world: World, worker: str, operator: Client, heard: Heard
    ) -> None:
        assert "already takes from its queues" in said(operator.post(url("resume")))
        operator.post(url("quiet"))
        heard.queues = []
        operator.post(url("quiet"))  # a second time, which must not forget the queues
        workers.announce(name=NAME, queues=[], concurrency=4, process="7-a")
        wellbeing.forget()
        assert "Resume…" in operator.get(reverse("workers")).content.decode()
        heard.told = []
        assert said(operator.post(url("resume"))) == f"Worker {NAME} takes messages again."
        assert heard.told == [("add_consumer", f"jobs.{name}", NAME) for name in ("message", "noop")]
        last = Change.objects.filter(object_id=f"worker {NAME}").latest("id")
        assert last.changes == {"queues": [[], ["jobs.message", "jobs.noop"]]}
        assert "already takes from its queues" in said(operator.post(url("resume")))

    def test_stops(self, world: World, worker: str, operator: Client, heard: Heard) -> None:
        assert said(operator.post(url("stop"))) == f"Worker {NAME} was told to stop."
        assert heard.told == [("shutdown", NAME)]
        assert Change.objects.filter(object_id=f"worker {NAME}").count() == 1

    @pytest.mark.parametrize("verb", ["quiet", "stop"])
    def test_that_does_not_answer_is_named(
        self, verb: str, world: World, worker: str, operator: Client, heard: Heard
    ) -> None:
        heard.answers = False
        assert "does not answer" in said(operator.post(url(verb)))
        assert heard.told == []
        assert not Change.objects.filter(object_id=f"worker {NAME}").exists()

    def test_cannot_be_told_while_the_broker_is_away(
        self, world: World, worker: str, operator: Client, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away() -> None:
            raise OperationalError("no route")

        monkeypatch.setattr(heard, "active_queues", away)
        assert "The broker does not answer" in said(operator.post(url("stop")))

    @pytest.mark.parametrize("name", ["nobody@host", "crm@7"])
    def test_of_no_such_name_or_of_a_tenant_is_not_told(
        self, name: str, world: World, worker: str, operator: Client, heard: Heard
    ) -> None:
        workers.announce(name="crm@7", queues=["jobs.sync@7"], concurrency=2)
        operator.post(url("stop", name))
        assert heard.told == []

    def test_that_shares_its_name_is_not_told(
        self, world: World, worker: str, operator: Client, heard: Heard
    ) -> None:
        twin = workers.own_name(NAME, "8-b")
        workers.announce(name=twin, queues=["jobs.noop"], concurrency=4, process="8-b")
        for name in (NAME, twin):
            assert "share this name" in said(operator.post(url("stop", name)))
        assert heard.told == []

    def test_can_be_told_nothing_else(self, world: World, worker: str, operator: Client) -> None:
        assert operator.get(url("dance")).status_code == 404
