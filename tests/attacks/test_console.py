"""Staff of the console who want more than they were given: other people's rights, and sealed or hashed values."""

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.options import ModelAdmin
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Field
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse

from jobs.admin.firings.dead_letter import DeadLetterAdmin
from jobs.models import Trigger
from tenants.console import ConsoleAdmin
from tenants.vault.signing import rotate_signing_secret
from tests.interfaces.admin.world import World, signed_in

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-battery-staple"
#: The form that a browser sends for an operator's page; a tick that is not sent is a tick taken away.
PAGE = {
    "bounds-TOTAL_FORMS": "0",
    "bounds-INITIAL_FORMS": "0",
    "is_active": "on",
    "date_joined_0": "2030-01-01",
    "date_joined_1": "00:00:00",
    "last_login_0": "",
    "last_login_1": "",
}
LOOKUPS = ("", "__exact", "__startswith", "__istartswith", "__contains", "__regex", "__gt", "__lt", "__range", "__in",
           "__isnull", "__length", "__id__exact")  # fmt: skip


def superuser() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def person(client: Client) -> User:
    return User.objects.get(pk=client.session["_auth_user_id"])


def edit(client: Client, user: User, **changes: Any) -> HttpResponse:
    sent = PAGE | {"username": user.username, "is_staff": "on" if user.is_staff else ""} | changes
    return client.post(
        reverse("admin:auth_user_change", args=[user.pk]), {k: v for k, v in sent.items() if v}
    )


def reset(client: Client, user: User) -> bool:
    """Whether a new password was set for ``user``."""
    sent = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true", "set-password": "on"}
    client.post(reverse("admin:auth_user_password_change", args=[user.pk]), sent)
    return User.objects.get(pk=user.pk).check_password(PASSWORD)


def delete(client: Client, user: User) -> bool:
    """Whether ``user`` is gone, by its own page or by the list's action."""
    client.post(reverse("admin:auth_user_delete", args=[user.pk]), {"post": "yes"})
    sent = {"action": "delete_selected", "_selected_action": [str(user.pk)], "post": "yes"}
    client.post(reverse("admin:auth_user_changelist"), sent)
    return not User.objects.filter(pk=user.pk).exists()


class TestRights:
    """``view_user`` and ``change_user`` are for names and addresses, not for rights and passwords."""

    def test_nobody_but_a_superuser_makes_superusers_or_grants_anything(self) -> None:
        staff = signed_in("view_user", "change_user", "view_job")
        me, group = person(staff), Group.objects.create(name="tenants")
        delete_job = Permission.objects.get(codename="delete_job")
        wanted = {"is_superuser": "on", "groups": [group.pk], "user_permissions": [delete_job.pk]}
        assert edit(staff, me, first_name="Mallory", **wanted).status_code == 302
        me.refresh_from_db()
        assert me.first_name == "Mallory"  # the form was accepted, except for these
        assert not me.is_superuser
        assert not me.groups.exists()
        assert not me.user_permissions.filter(pk=delete_job.pk).exists()
        assert me.user_permissions.count() == 3

        assert edit(superuser(), me, **wanted).status_code == 302  # control
        me.refresh_from_db()
        assert me.is_superuser
        assert [*me.groups.all()] == [group]
        assert [*me.user_permissions.all()] == [delete_job]

    def test_superusers_are_edited_reset_and_deleted_by_superusers_alone(self) -> None:
        staff = signed_in("view_user", "change_user", "delete_user")
        owner = User.objects.create_superuser("owner", email="owner@example.com")
        asleep = User.objects.create_superuser("asleep", is_active=False)
        for boss in (owner, asleep):
            assert edit(staff, boss, email="mallory@example.com").status_code == 403
            assert not reset(staff, boss)
            assert not delete(staff, boss)
            boss.refresh_from_db()
            assert boss.email != "mallory@example.com"
        root = superuser()
        assert reset(root, owner)  # control
        assert delete(root, asleep)

    def test_nobody_takes_over_who_may_do_more(self) -> None:
        staff = signed_in("view_user", "change_user", "delete_user")
        stronger = person(signed_in("view_user", "delete_job"))
        grouped = User.objects.create_user("grouped", is_staff=True)
        group = Group.objects.create(name="owners")
        group.permissions.add(Permission.objects.get(codename="change_tenant"))
        grouped.groups.add(group)
        User.objects.filter(pk=grouped.pk).update(is_active=False)  # its rights come back when it does
        weaker = person(signed_in("view_user"))
        for user in (stronger, grouped):
            assert edit(staff, user, email="mallory@example.com").status_code == 403
            assert not reset(staff, user)
            assert not delete(staff, user)
        assert edit(staff, weaker, email="new@example.com").status_code == 302  # control
        assert reset(staff, weaker)
        assert delete(staff, weaker)

    def test_new_users_come_without_rights_and_groups_are_for_superusers(self) -> None:
        staff = signed_in(
            "view_user", "change_user", "add_user", "view_group", "change_group", "add_group", "delete_group"
        )
        mine = Group.objects.create(name="mine")
        person(staff).groups.add(mine)
        everything = [p.pk for p in Permission.objects.all()]
        new = {"username": "puppet", "password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
        added = staff.post(
            reverse("admin:auth_user_add"), new | {"is_superuser": "on", "user_permissions": everything}
        )
        assert added.status_code == 302
        puppet = User.objects.get(username="puppet")
        assert not puppet.is_superuser
        assert not puppet.user_permissions.exists()
        sent = {"name": "mine", "permissions": everything}
        page = reverse("admin:auth_group_change", args=[mine.pk])
        assert staff.get(page).status_code == 200
        assert staff.post(page, sent).status_code == 403
        assert staff.post(reverse("admin:auth_group_add"), sent | {"name": "other"}).status_code == 403
        assert (
            staff.post(reverse("admin:auth_group_delete", args=[mine.pk]), {"post": "yes"}).status_code == 403
        )
        assert not mine.permissions.exists()
        assert superuser().post(page, sent).status_code == 302  # control
        assert mine.permissions.count() == len(everything)

    def test_who_may_only_look_sees_pages_without_a_hash(self) -> None:
        owner = User.objects.create_superuser("owner", password=PASSWORD)
        for staff in (signed_in("view_user"), signed_in("view_user", "change_user")):
            page = staff.get(reverse("admin:auth_user_change", args=[owner.pk]))
            assert page.status_code == 200
            assert owner.password.split("$")[-1] not in page.content.decode()


def pages() -> list[ModelAdmin]:
    return [*admin.site._registry.values(), DeadLetterAdmin(Trigger, admin.site)]


def paths(page: ModelAdmin) -> list[str]:
    """Every column of a page's model, and those of the models it refers to or is referred to by."""
    found = []
    for field in page.model._meta.get_fields():
        found.append(field.name)
        if field.is_relation and field.related_model not in (None, "self"):
            found += [
                f"{field.name}__{column.name}"
                for column in field.related_model._meta.get_fields()  # type: ignore[union-attr]
                if isinstance(column, Field)
            ]
    return found


def declared(page: ModelAdmin) -> set[str]:
    return {
        item if isinstance(item, str) else item[0] for item in page.list_filter if not isinstance(item, type)
    }


class TestFilters:
    """A filter that counts rows is an oracle: it spells a column out, letter by letter."""

    def test_every_page_is_one_of_ours(self) -> None:
        assert [page for page in pages() if not isinstance(page, ConsoleAdmin)] == []

    def test_no_page_takes_a_filter_it_does_not_offer(self) -> None:
        request = RequestFactory().get("/")
        open_door = set()
        for page in pages():
            hidden = [path for path in paths(page) if path not in declared(page)]
            tried = [path + lookup for path in hidden for lookup in LOOKUPS]
            # ``tenant__id__exact`` is how a filter by tenant asks, ``job_type`` how one of our own does.
            keys = {f"{column}__id__exact" for column in declared(page)}
            keys |= {item.parameter_name for item in page.list_filter if isinstance(item, type)}
            taken = {lookup for lookup in tried if page.lookup_allowed(lookup, "x", request)}
            assert taken <= keys, page
            open_door |= {lookup for lookup in tried if ModelAdmin.lookup_allowed(page, lookup, "x", request)}
        assert {
            "secret_hash__startswith",
            "webhook_secret__regex",
            "sealed__gt",
            "payload__contains",
        } <= open_door  # control: Django's own rule

    @pytest.mark.parametrize(
        ("model", "column"),
        [("apikey", "secret_hash"), ("tenant", "webhook_secret"), ("secret", "sealed"), ("user", "password")],
    )
    def test_what_is_sealed_or_hashed_cannot_be_guessed_at(
        self, model: str, column: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = World()
        rotate_signing_secret(tenant=world.tenant)
        world.tenant.refresh_from_db()
        owner = User.objects.create_superuser("owner", password=PASSWORD)
        row = {"apikey": world.key, "tenant": world.tenant, "secret": world.secret, "user": owner}[model]
        app = "auth" if model == "user" else "tenants"
        url, right = reverse(f"admin:{app}_{model}_changelist"), getattr(row, column)[:20]
        staff = signed_in(f"view_{model}")
        for guess in (right, "no" + right):
            assert staff.get(url, {f"{column}__startswith": guess}).status_code == 400

        monkeypatch.setattr(ConsoleAdmin, "lookup_allowed", ModelAdmin.lookup_allowed)  # control
        if model != "user":  # Django itself guards passwords
            sizes = [
                len(staff.get(url, {f"{column}__startswith": guess}).context["cl"].result_list)
                for guess in (right, "no" + right)
            ]
            assert sizes == [1, 0]

    def test_the_filters_a_page_offers_work(self) -> None:
        world = World()
        staff = signed_in("view_job", "view_trigger", "view_tenant", "view_user", "view_change")
        for page, asked in (
            ("jobs_job", {"tenant__id__exact": world.tenant.id, "status__exact": "active"}),
            ("jobs_trigger", {"state__exact": "dead", "created": "1h"}),
            ("jobs_deadletter", {"tenant__id__exact": world.tenant.id}),
            ("tenants_tenant", {"status__exact": "active"}),
            ("jobs_change", {"object": str(world.key.pk)}),
            ("auth_user", {"is_superuser__exact": "0", "groups__id__exact": "", "q": "staff"}),
        ):
            asked = {name: value for name, value in asked.items() if value != ""}
            answer = staff.get(reverse(f"admin:{page}_changelist"), asked)
            assert answer.status_code == 200, page
            assert len(answer.context["cl"].result_list) >= 1, page
