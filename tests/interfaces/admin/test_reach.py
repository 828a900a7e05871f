"""A bound operator sees nothing of other tenants: on no page, by no address, search, filter, form or button."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote as quoted

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.db.models import Model
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from jobs.actions.bulk.operations import begin_operation
from jobs.admin import urls
from jobs.models import Change, Job, Operation, TaskRun, Trigger, WorkflowRun
from jobs.store.trail import Actor, acting_as
from tenants.actions import create_api_key
from tenants.models import ApiKey, OperatorBounds, Secret, Tenant
from tenants.vault.secrets import put_secret
from tests import factories
from tests.interfaces.admin.world import CONFIRMED, PAGES, World, confirm_shares, inputs, open_breaker, press
from tests.workflows.playing import begin, make_workflow

pytestmark = pytest.mark.django_db
MARK = "foreign-"
#: Pages that show rows of tenants, by the model in their names.
HELD = {
    "jobs_job", "jobs_trigger", "jobs_deadletter", "jobs_attempt", "jobs_operation", "jobs_change",
    "jobs_breaker", "jobs_workflow", "jobs_workflowrun", "tenants_tenant", "tenants_apikey", "tenants_secret",
}  # fmt: skip


class TwoTenants(World):
    """The world of one tenant, and beside it another tenant, whose every name and id is ``foreign``."""

    def __init__(self) -> None:
        super().__init__()
        _ = self.run  # otherwise it begins in the first click that asks for it, and is undone
        self.other = factories.make_tenant(slug=f"{MARK}tenant", name=f"{MARK}name")
        job = factories.make_job(self.other, name=f"{MARK}job")
        dead = factories.make_trigger(job, "dead")
        attempt = factories.make_attempt(dead, "failed", error_code=f"{MARK}code")
        key, _ = create_api_key(tenant=self.other, name=f"{MARK}key", scopes=["read"])
        secret, _ = put_secret(tenant=self.other, name=f"{MARK}secret", value="a value of it", hosts=["*"])
        with acting_as(Actor("api_key", f"{MARK}actor")):
            operation = begin_operation(tenant=self.other, verb="pause", wanted={"priority": "low"})
        change = Change.objects.filter(tenant_id=self.other.id).first()
        workflow = make_workflow(self.other, ("extract", "load"), name=f"{MARK}workflow")
        self.foreign: dict[str, Model] = {
            "jobs_workflowrun": begin(workflow, run_input=f"{MARK}input"),
            "jobs_workflow": workflow,
            "jobs_job": job,
            "jobs_trigger": dead,
            "jobs_attempt": attempt,
            "jobs_operation": operation,
            "jobs_change": change,
            "jobs_breaker": open_breaker(self.other, f"{MARK}target"),
            "tenants_tenant": self.other,
            "tenants_apikey": key,
            "tenants_secret": secret,
        }
        self.running = factories.make_trigger(factories.make_job(self.other, name=f"{MARK}busy"), "running")
        factories.make_trigger(factories.make_job(self.other, name=f"{MARK}late"), "pending")

    def row_of(self, page: str) -> Model | None:
        return next((row for model, row in self.foreign.items() if page.startswith(model)), None)

    def told(self, response: HttpResponse) -> list[str]:
        """The other tenant's words and row ids that a response names."""
        ids = {str(row.pk) for row in self.foreign.values() if len(str(row.pk)) > 30} | {str(self.running.pk)}
        text = response.content.decode() if not response.streaming else ""
        text += str(response.headers)
        return sorted(word for word in {MARK, *ids} if word in text)


@pytest.fixture
def world() -> TwoTenants:
    return TwoTenants()


@pytest.fixture
def bound(world: TwoTenants) -> Client:
    """A browser of an operator with every right there is, bound to the world's own tenant."""
    user = User.objects.create_user("bound", is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    OperatorBounds.objects.create(operator=user).tenants.add(world.tenant)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def free(world: TwoTenants) -> Client:
    """The control: the same rights, and no bounds."""
    user = User.objects.create_user("free", is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    client = Client()
    client.force_login(user)
    return client


def state() -> list[Any]:
    """All rows of the other tenant that a click could have changed."""
    return [
        sorted(map(str, model.objects.filter(**{path: f"{MARK}tenant"}).values_list()))
        for model, path in (
            (Job, "tenant__slug"), (Trigger, "tenant__slug"), (Operation, "tenant__slug"), (ApiKey, "tenant__slug"),
            (Secret, "tenant__slug"), (Tenant, "slug"), (WorkflowRun, "tenant__slug"), (TaskRun, "run__tenant__slug"),
        )
    ]  # fmt: skip


def model_of(page: str) -> str:
    return max((model for model in HELD if page.startswith(model)), key=len, default="")


@contextmanager
def undone() -> Iterator[None]:
    """Everything done inside is undone afterwards: one world serves many clicks."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


class TestEveryPage:
    @pytest.mark.parametrize("method", ["get", "post"])
    def test_names_nothing_of_another_tenant(self, method: str, world: TwoTenants, bound: Client) -> None:
        before, wrong = state(), []
        for page in sorted(PAGES):
            with undone():
                answer = getattr(bound, method)(world.url(page), CONFIRMED if method == "post" else {})
                closed = answer.status_code == 403 or bool(model_of(page))
                if world.told(answer) or not closed or state() != before:
                    wrong.append((page, answer.status_code, world.told(answer)))
        assert wrong == []

    @pytest.mark.parametrize("method", ["get", "post"])
    def test_knows_no_row_of_another_tenant(
        self, method: str, world: TwoTenants, bound: Client, free: Client
    ) -> None:
        before, wrong = state(), []
        for page in sorted(page for page, of_row in PAGES.items() if of_row and model_of(page)):
            key = world.row_of(page).pk
            url, missing = (reverse(f"admin:{page}", args=[quote(one)]) for one in (key, _like(key)))
            with undone():
                answers = [getattr(bound, method)(one, CONFIRMED) for one in (url, missing)]
                told = [word for word in world.told(answers[0]) if word not in url]
                if [one.status_code for one in answers] != [404, 404] or told or state() != before:
                    wrong.append((page, [one.status_code for one in answers], told))
            with undone():  # control
                if getattr(free, method)(url, CONFIRMED).status_code == 404:
                    wrong.append((page, "is closed to all"))
        assert wrong == []

    def test_of_the_console_itself_neither(self, world: TwoTenants, bound: Client) -> None:
        for page in ("index", "password_change", "auth_user_changelist", "auth_group_changelist"):
            assert world.told(bound.get(reverse(f"admin:{page}"))) == [], page

    def test_of_pages_that_are_no_list_neither(self, world: TwoTenants, bound: Client) -> None:
        """Overview, charts, search and their parts: all of ``jobs.admin.urls``, asked for the other tenant's rows."""
        job, other = world.foreign["jobs_job"], world.other
        named = {"slug": other.slug, "tenant": other.slug, "tenant_id": other.pk, "job_id": job.pk}
        named |= {"run_id": world.foreign["jobs_workflowrun"].pk, "task": "extract"}
        asked = [
            "",
            *(
                f"?{name}={value}"
                for name in ("q", "s", "tenant", "job")
                for value in (MARK, other.pk, job.pk)
            ),
        ]
        wrong = []
        for pattern in urls.urlpatterns:
            wanted = set(pattern.pattern.converters)
            if not wanted <= set(named):
                continue
            url = reverse(pattern.name, kwargs={name: named[name] for name in wanted})
            for query in asked:
                text = bound.get(url + query).content.decode()
                for echo in (url, query[1:], query.partition("=")[2]):
                    text = text.replace(echo, "") if echo else text
                if MARK in text or str(world.running.pk) in text:
                    wrong.append(url + query)
        assert wrong == []


class TestLists:
    def test_show_the_own_rows_alone_under_every_filter_and_search(
        self, world: TwoTenants, bound: Client, free: Client
    ) -> None:
        Change.objects.filter(kind="user").delete()  # so that the first page holds the others
        for model in sorted(HELD):
            url = reverse(f"admin:{model}_changelist")
            row = world.foreign.get(model) or world.foreign["jobs_trigger"]
            key, other = quoted(str(row.pk)), world.other.pk
            asked = [
                "",
                f"?q={key}",
                f"?q={MARK}",
                f"?tenant__id__exact={other}",
                f"?tenant={other}",
                f"?object={key}",
            ]
            for query in asked:
                answer = bound.get(url + query)
                shown = answer.content.decode().replace(query[1:], "").replace(query[3:], "")
                assert MARK not in shown, (model, query)
                if answer.status_code == 200:
                    rows = {str(one.pk) for one in answer.context["cl"].result_list}
                    assert str(row.pk) not in rows, (model, query)
            assert MARK in free.get(url).content.decode(), model  # control

    def test_export_and_autocomplete_the_own_alone(
        self, world: TwoTenants, bound: Client, free: Client
    ) -> None:
        url = reverse("admin:autocomplete")
        asked = {"app_label": "jobs", "model_name": "job", "field_name": "tenant"}
        for client, names in ((bound, 1), (free, 2)):
            found = client.get(url, asked).json()["results"]
            assert len(found) == names
        assert bound.get(url, asked | {"term": MARK}).json()["results"] == []

    def test_act_on_the_own_alone(self, world: TwoTenants, bound: Client) -> None:
        before = state()
        dead = world.foreign["jobs_trigger"]
        for model, action in (
            ("jobs_deadletter", "replay_selected"),
            ("jobs_deadletter", "dismiss_selected"),
            ("jobs_deadletter", "delete_selected"),
            ("tenants_apikey", "delete_selected"),
            ("auth_user", "sign_out_everywhere"),
        ):
            sent = {"action": action, "_selected_action": [str(dead.pk)], "select_across": "1", "post": "yes"}
            bound.post(reverse(f"admin:{model}_changelist"), sent)
        ticked = {"action": "dismiss_selected", "_selected_action": [str(dead.pk)], "note": "x"}
        bound.post(reverse("admin:jobs_deadletter_changelist"), ticked | {f"confirmed_{dead.tenant_id}": 9})
        press(bound, "jobs_trigger_dismiss", dead, note="x")
        bound.post(
            f"{reverse('admin:jobs_deadletter_dismiss')}?q={dead.pk}",
            {f"confirmed_{dead.tenant_id}": 9, "note": "x"},
        )
        url = reverse("admin:jobs_deadletter_replay")
        confirm_shares(bound, f"{url}?q={dead.pk}")
        bound.post(url, {f"confirmed_{dead.tenant_id}": 9})
        assert state() == before
        confirm_shares(bound, url)
        assert state() == before
        world.dead.refresh_from_db()
        assert world.dead.state == "pending"  # control: the own one


class TestForms:
    @pytest.fixture
    def forms(self, world: TwoTenants) -> dict[str, dict[str, Any]]:
        return {
            "jobs_job": inputs(name="new-one", tenant=str(world.other.pk)),
            "tenants_apikey": {"tenant": str(world.other.pk), "name": "new-one", "scopes": ["read"]},
        }

    @pytest.mark.usefixtures("job_types")
    def test_take_no_tenant_out_of_reach(
        self, world: TwoTenants, bound: Client, forms: dict[str, dict[str, Any]]
    ) -> None:
        before = state()
        for model, sent in forms.items():
            refused = bound.post(reverse(f"admin:{model}_add"), sent)
            assert "tenant" in refused.context["adminform"].form.errors, model
            assert world.told(refused) == []
            taken = bound.post(reverse(f"admin:{model}_add"), sent | {"tenant": str(world.tenant.pk)})
            assert taken.status_code == 302, model  # control
        assert state() == before

    def test_make_no_tenant(self, bound: Client) -> None:
        assert bound.get(reverse("admin:tenants_tenant_add")).status_code == 403


class TestBounds:
    """Superusers and access administrators set them, but never their own."""

    @pytest.fixture
    def bind(self, world: TwoTenants) -> Callable[..., HttpResponse]:
        def send(client: Client, user: User, tenants: list[int]) -> HttpResponse:
            bounds = OperatorBounds.objects.filter(operator=user).first()
            sent: dict[str, Any] = {
                "username": user.username, "is_active": "on", "is_staff": "on",
                "date_joined_0": "2030-01-01", "date_joined_1": "00:00:00",
                "bounds-TOTAL_FORMS": "1", "bounds-INITIAL_FORMS": "1" if bounds else "0",
                "bounds-0-operator": str(user.pk), "bounds-0-tenants": [str(one) for one in tenants],
            }  # fmt: skip
            if bounds:
                sent["bounds-0-id"] = str(bounds.pk)
            return client.post(reverse("admin:auth_user_change", args=[user.pk]), sent)

        return send

    @staticmethod
    def of(user: User) -> list[str] | None:
        bounds = OperatorBounds.objects.filter(operator=user).first()
        return bounds and [tenant.slug for tenant in bounds.tenants.all()]

    def test_are_set_by_superusers_and_access_administrators_on_the_trail(
        self, world: TwoTenants, operator: Client, staff: Callable[..., Client], bind: Callable[..., Any]
    ) -> None:
        clerk = User.objects.create_user("clerk", is_staff=True)
        administrator = staff(
            "view_user", "change_user", "view_tenant", "view_operatorbounds", "add_operatorbounds",
            "change_operatorbounds",
        )  # fmt: skip
        assert bind(operator, clerk, [world.tenant.pk]).status_code == 302
        assert self.of(clerk) == [world.tenant.slug]
        assert bind(administrator, clerk, [world.other.pk]).status_code == 302
        assert self.of(clerk) == [world.other.slug]
        told = Change.objects.filter(kind="user", object_id=str(clerk.pk), action="updated").order_by("id")
        assert [change.changes for change in told] == [
            {"bound": [False, True]},
            {"tenants": [None, world.tenant.slug]},
            {"tenants": [world.tenant.slug, None]},
            {"tenants": [None, world.other.slug]},
        ]
        by = User.objects.get(pk=administrator.session["_auth_user_id"])
        assert {change.actor for change in told} == {"root", by.username}

    def test_are_not_set_by_others_and_not_by_those_they_bind(
        self, world: TwoTenants, staff: Callable[..., Client], bind: Callable[..., Any]
    ) -> None:
        clerk = User.objects.create_user("clerk", is_staff=True)
        OperatorBounds.objects.create(operator=clerk).tenants.add(world.tenant)
        bind(staff("view_user", "change_user"), clerk, [world.other.pk])
        assert self.of(clerk) == [world.tenant.slug]
        every = [right.codename for right in Permission.objects.all()]
        themselves = staff(*every)
        user = User.objects.get(pk=themselves.session["_auth_user_id"])
        bind(themselves, user, [world.tenant.pk])
        assert self.of(user) is None
        OperatorBounds.objects.create(operator=user).tenants.add(world.tenant)
        assert bind(themselves, user, [world.other.pk]).status_code == 403
        assert bind(themselves, clerk, [world.other.pk]).status_code == 403
        assert self.of(user) == self.of(clerk) == [world.tenant.slug]

    def test_without_a_tenant_reach_nothing(self, world: TwoTenants, staff: Callable[..., Client]) -> None:
        client = staff("view_job")
        OperatorBounds.objects.create(operator_id=client.session["_auth_user_id"])
        page = client.get(reverse("admin:jobs_job_changelist"))
        assert page.status_code == 200
        assert list(page.context["cl"].result_list) == []


def _like(key: Any) -> Any:
    """An id of the same kind that no row has."""
    return key + 1_000_000 if isinstance(key, int) else re.sub(".{4}$", "ffff", str(key))
