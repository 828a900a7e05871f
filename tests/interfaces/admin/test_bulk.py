"""Many jobs at once from their list: the question, the confirmation, the rights, and the end of hostile requests."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse, QueryDict
from django.test import Client
from django.urls import reverse

from jobs.actions.bulk.operations import MAX_UNFINISHED, advance, begin_operation
from jobs.admin.job.bulk import choice as choices
from jobs.admin.job.bulk.choice import CannotTell, chosen
from jobs.admin.shared import shares as confirming
from jobs.models import Change, Job, Operation
from jobs.selection.walks import select
from tenants.models import OperatorBounds
from tests import factories
from tests.interfaces.admin.world import World, said, signed_in

pytestmark = pytest.mark.django_db
LIST = "/admin/jobs/job/"


def url(verb: str, **query: Any) -> str:
    parameters = QueryDict(mutable=True)
    parameters.update({name: str(value) for name, value in query.items()})
    return f"{reverse('jobs_bulk', args=[verb])}?{parameters.urlencode()}"


def confirmed(**counts: int) -> dict[str, str]:
    return {f"confirmed_{name.removeprefix('t')}": str(count) for name, count in counts.items()}


def confirm(client: Client, verb: str, *, typed: dict[str, str] | None = None, **query: Any) -> HttpResponse:
    """Open the page that asks, and confirm the numbers that it shows."""
    page = client.get(url(verb, **query))
    shown = {f"confirmed_{share.tenant.pk}": str(share.matching) for share in page.context["shares"]}
    return client.post(url(verb, **query), shown | (typed or {}))


def run() -> None:
    while advance(select):
        pass


@pytest.fixture
def mine(world: World) -> World:
    """A world with no operations except those of the test."""
    Operation.objects.all().delete()
    return world


class TestThePage:
    def test_shows_how_many_of_whom_and_writes_nothing(self, mine: World, operator: Client) -> None:
        other = factories.make_job(name="open-books")
        page = operator.get(url("pause"))
        assert page.status_code == 200
        found = {share.tenant.slug: share.matching for share in page.context["shares"]}
        assert found == {mine.tenant.slug: 1, other.tenant.slug: 1}
        assert not Operation.objects.exists()

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ({"q": "close"}, {"close-books"}),
            ({"status__exact": "paused"}, {"paused"}),
            ({"priority__exact": "0"}, {"urgent"}),
            ({"job_type": "webhook"}, {"hook"}),
            ({"schedule_type__exact": "once"}, set()),
            ({"label": "env=prod"}, {"labelled"}),
        ],
    )
    def test_takes_the_filter_of_the_list(
        self, query: dict[str, str], names: set[str], mine: World, operator: Client
    ) -> None:
        for name, columns in {
            "paused": {"status": "paused"},
            "urgent": {"priority": 0},
            "hook": {"job_type": "webhook"},
            "labelled": {"labels": {"env": "prod"}},
        }.items():
            factories.make_job(mine.tenant, name=name, **columns)
        if not names:
            assert operator.get(url("delete", **query)).context["shares"] == []
            return
        confirm(operator, "delete", **query)
        run()
        assert set(Job.objects.exclude(deleted_at=None).values_list("name", flat=True)) == names

    @pytest.mark.parametrize(
        "query",
        [
            "deleted=1",
            "created=1h",
            "nonsense=1",
            "priority__exact=x",
            "status__exact=x",
            "label=%20=",
            "tenant__id__exact=x",
            "ids=1",
            "job_type=a&job_type=b",
        ],
    )
    def test_refuses_a_filter_that_it_cannot_repeat(self, query: str, mine: World, operator: Client) -> None:
        address = f"{reverse('jobs_bulk', args=['delete'])}?{query}"
        assert operator.get(address).context["problem"]
        operator.post(address, confirmed(**{f"t{mine.tenant.pk}": 10}))
        assert not Operation.objects.exists()

    def test_a_list_of_too_many_tenants_is_to_be_narrowed(
        self, mine: World, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(choices, "MAX_TENANTS", 1)
        factories.make_job()
        assert "choose a tenant" in operator.get(url("pause")).context["problem"]
        one = operator.get(url("pause", tenant__id__exact=mine.tenant.pk)).context["shares"]
        assert [share.tenant for share in one] == [mine.tenant]


class TestConfirming:
    def test_begins_one_operation_a_tenant_in_the_operators_name(self, mine: World, operator: Client) -> None:
        Change.objects.all().delete()
        other = factories.make_job(name="open-books")
        confirm(operator, "pause", typed={"reason": "Incident 42."})
        operations = Operation.objects.order_by("tenant_id")
        assert [(one.tenant, one.verb, one.expected) for one in operations] == [
            (mine.tenant, "pause", 1),
            (other.tenant, "pause", 1),
        ]
        assert {one.asked_by["name"] for one in operations} == {"root"}
        run()
        rows = set(Job.objects.values_list("status", "status_reason"))
        assert rows == {("paused", "Incident 42.")}
        assert Change.objects.filter(kind="operation", action="created", actor_kind="operator").count() == 2

    def test_takes_those_that_were_ticked(self, mine: World, operator: Client) -> None:
        others = [factories.make_job(mine.tenant, name=f"other-{number}") for number in range(3)]
        ticked = [mine.job.id, others[0].id]
        answer = operator.post(
            LIST, {"action": "bulk_pause", "_selected_action": [str(one) for one in ticked]}
        )
        assert answer.status_code == 302
        page = operator.get(answer.url)
        assert [share.matching for share in page.context["shares"]] == [2]
        assert not Operation.objects.exists()
        operator.post(answer.url, confirmed(**{f"t{mine.tenant.pk}": 2}))
        run()
        assert set(Job.objects.filter(status="paused").values_list("id", flat=True)) == set(ticked)

    def test_without_a_number_nothing_is_done(self, mine: World, operator: Client) -> None:
        for typed in ({}, {f"confirmed_{mine.tenant.pk}": ""}, {f"confirmed_{mine.tenant.pk}": "²"}):
            answer = operator.post(url("pause"), typed)
            assert "Nothing was done" in said(answer)
        assert not Operation.objects.exists()

    def test_a_number_that_has_grown_is_asked_again(self, mine: World, operator: Client) -> None:
        factories.make_job(mine.tenant, name="one-more")
        answer = operator.post(url("delete"), confirmed(**{f"t{mine.tenant.pk}": 1}))
        assert "2 jobs" in said(answer)
        assert not Operation.objects.exists()

    def test_a_tenant_that_was_not_shown_is_not_touched(self, mine: World, operator: Client) -> None:
        factories.make_job(name="open-books")
        operator.post(url("delete"), confirmed(**{f"t{mine.tenant.pk}": 1}))
        assert not Operation.objects.exists()

    def test_above_a_thousand_the_tenant_is_typed(
        self, mine: World, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(confirming, "MAX_UNTYPED", 0)
        for slug in ("", "globex", mine.tenant.slug.upper()):
            confirm(operator, "pause", typed={f"slug_{mine.tenant.pk}": slug})
            assert not Operation.objects.exists()
        confirm(operator, "pause", typed={f"slug_{mine.tenant.pk}": mine.tenant.slug})
        assert Operation.objects.count() == 1

    def test_a_number_that_nobody_could_count_is_typed_too(
        self, mine: World, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        factories.make_job(mine.tenant, name="one-more")
        monkeypatch.setattr(choices, "MAX_LOOKED_AT", 1)
        page = operator.get(url("pause")).content.decode()
        assert "more than 1" in page
        confirm(operator, "pause")
        assert not Operation.objects.exists()

    def test_says_which_tenant_has_too_many_operations(self, mine: World, operator: Client) -> None:
        for _ in range(MAX_UNFINISHED):
            begin_operation(tenant=mine.tenant, verb="pause", wanted={})
        assert "not begun" in said(confirm(operator, "pause"))
        assert Operation.objects.count() == MAX_UNFINISHED


class TestChanging:
    def test_sets_priority_and_labels_and_shows_before_what_would_change(
        self, mine: World, operator: Client
    ) -> None:
        Job.objects.update(labels={"team": "old", "gone": "soon"})
        typed = {"priority": "critical", "labels": "team=new", "without": "gone"}
        page = operator.post(url("edit"), typed | {"preview": "1"})
        assert "1 would change" in page.content.decode()
        assert not Operation.objects.exists()
        confirm(operator, "edit", typed=typed)
        run()
        job = Job.objects.get(id=mine.job.id)
        assert (job.priority, job.labels) == (0, {"team": "new"})

    @pytest.mark.parametrize("typed", [{}, {"labels": "=;"}, {"priority": "highest"}, {"labels": "\0"}])
    def test_refuses_what_no_job_could_take(
        self, typed: dict[str, str], mine: World, operator: Client
    ) -> None:
        assert confirm(operator, "edit", typed=typed).status_code == 200
        assert not Operation.objects.exists()


class TestWhoMay:
    @pytest.mark.parametrize("verb", ["pause", "resume", "cancel", "edit", "delete"])
    def test_needs_the_permission_for_what_it_does(self, verb: str, mine: World) -> None:
        viewer = signed_in("view_job", "delete_job" if verb != "delete" else "change_job", "view_operation")
        assert viewer.get(url(verb)).status_code == 403
        assert viewer.post(url(verb), confirmed(**{f"t{mine.tenant.pk}": 5})).status_code == 403
        ticks = {"action": f"bulk_{verb}", "_selected_action": [str(mine.job.id)]}
        viewer.post(LIST, ticks)
        assert not Operation.objects.exists()

    def test_offers_on_the_list_what_is_permitted(self, mine: World) -> None:
        editor, viewer = signed_in("view_job", "change_job"), signed_in("view_job")
        page = editor.get(LIST, {"q": "close"}).content.decode()
        assert "/admin/jobs/job/bulk/pause/?q=close" in page
        assert "/admin/jobs/job/bulk/delete/" not in page
        assert "/bulk/" not in viewer.get(LIST).content.decode()

    def test_an_operator_who_is_bound_touches_no_other_tenant(
        self, mine: World, staff: Callable[..., Client]
    ) -> None:
        client = staff("view_job", "change_job", "delete_job", "view_operation")
        own = factories.make_job(name="open-books")
        user = User.objects.get(id=client.session["_auth_user_id"])
        OperatorBounds.objects.create(operator=user).tenants.set([own.tenant])
        page = client.get(url("pause"))
        assert [share.tenant for share in page.context["shares"]] == [own.tenant]
        assert mine.tenant.slug not in page.content.decode()
        foreign = {"tenant__id__exact": mine.tenant.pk}, {"ids": mine.job.id}, {"q": mine.job.id}
        for query in foreign:
            assert client.get(url("pause", **query)).context["shares"] == []
            client.post(url("pause", **query), confirmed(**{f"t{mine.tenant.pk}": 9}))
        assert not Operation.objects.exists()
        client.post(url("pause"), confirmed(**{f"t{own.tenant.pk}": 1, f"t{mine.tenant.pk}": 1}))
        assert [one.tenant for one in Operation.objects.all()] == [own.tenant]

    def test_strangers_and_nonsense_get_nowhere(self, mine: World, operator: Client) -> None:
        assert Client().get(url("pause")).status_code == 302
        assert operator.get("/admin/jobs/job/bulk/explode/").status_code == 404
        assert operator.get(url("pause", ids=uuid4())).context["shares"] == []
        forged = Client(enforce_csrf_checks=True)
        forged.force_login(User.objects.get(username="root"))
        assert forged.post(url("pause"), confirmed(**{f"t{mine.tenant.pk}": 1})).status_code == 403


class TestProgress:
    def test_tells_how_far_an_operation_has_come_and_stops_asking_at_its_end(
        self, mine: World, operator: Client
    ) -> None:
        confirm(operator, "pause")
        (operation,) = Operation.objects.all()
        address = reverse("operation_progress", args=[operation.id])
        assert "hx-get" in operator.get(address).content.decode()
        unfinished = operator.get(reverse("operations_unfinished")).content.decode()
        assert mine.tenant.slug in unfinished
        run()
        text = operator.get(address).content.decode()
        assert "1 of 1 looked at" in " ".join(text.split())
        assert "hx-get" not in text
        assert mine.tenant.slug not in operator.get(reverse("operations_unfinished")).content.decode()

    def test_links_what_refused(self, mine: World, operator: Client) -> None:
        Job.objects.update(status="cancelled")
        confirm(operator, "resume")
        run()
        (operation,) = Operation.objects.all()
        page = operator.get(reverse("admin:jobs_operation_change", args=[operation.id])).content.decode()
        assert f"/admin/jobs/job/{mine.job.id}/change/" in page
        assert "cannot be resumed" in page

    def test_shows_nothing_of_other_tenants_to_one_who_is_bound(
        self, mine: World, staff: Callable[..., Client]
    ) -> None:
        operation = begin_operation(tenant=mine.tenant, verb="pause", wanted={})
        client = staff("view_operation")
        user = User.objects.get(id=client.session["_auth_user_id"])
        OperatorBounds.objects.create(operator=user).tenants.set([factories.make_tenant()])
        assert client.get(reverse("operation_progress", args=[operation.id])).status_code == 404
        assert mine.tenant.slug not in client.get(reverse("operations_unfinished")).content.decode()
        assert signed_in("view_job").get(reverse("operations_unfinished")).status_code == 403


class TestChoice:
    def test_reads_nothing_as_all_and_pages_as_nothing(self) -> None:
        assert chosen(QueryDict("p=3")).wanted == chosen(QueryDict("")).wanted == {}
        assert chosen(QueryDict("q=close")).in_words == "name_prefix close"

    def test_names_at_most_a_hundred(self, mine: World) -> None:
        many = ",".join(str(uuid4()) for _ in range(101))
        with pytest.raises(CannotTell):
            choices.shares(
                User.objects.create_superuser("root"), chosen(QueryDict(f"ids={many}")), verb="pause"
            )
