"""Operators and their groups: the right to change users must not give more rights than its holder has.

A superuser does everything. Another user with ``change_user`` or ``delete_user`` has these rights over users who may do
no more than themselves, and edits neither rights nor groups: a user's password, address or tick of "superuser" would
otherwise be the way to all other rights. An access administrator (``change_operatorbounds``) also gives and takes
groups, but only those whose every right they hold, and never their own.
"""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as BaseGroupAdmin
from django.contrib.auth.admin import UserAdmin as BaseUserAdmin
from django.contrib.auth.forms import UserChangeForm as PlainUserChangeForm
from django.contrib.auth.models import Group, Permission, User
from django.db.models import Model, Q, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import reverse
from unfold.dataclasses import ActionDialog
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.forms import AdminPasswordChangeForm, BaseDialogForm, UserChangeForm, UserCreationForm

from tenants import second_factor
from tenants.console.bounds import BoundsInline
from tenants.console.identities import IdentityInline
from tenants.console.pages import ConsoleAdmin, back_to
from tenants.models import OperatorSession, SecondFactor

TRAIL_LINK = "admin/trail_link.html"
RIGHTS = ("is_superuser", "groups", "user_permissions")


def may_do_more(user: User, than: User) -> bool:
    """Whether ``user`` has a right that ``than`` has not. An inactive user's rights count: they return with it."""
    if than.is_superuser:
        return False
    if user.is_superuser:
        return True
    rights = Permission.objects.filter(Q(user=user) | Q(group__user=user)).select_related("content_type")
    return not than.has_perms([f"{right.content_type.app_label}.{right.codename}" for right in rights])


def sign_out(user: User) -> int:
    """End all sessions of ``user``. Returns how many there were."""
    return OperatorSession.objects.filter(operator=user).delete()[0]


def reset_second_factor(user: User) -> bool:
    """Remove ``user``'s second factor, which is lost, and end all sessions; False: there was none."""
    if not second_factor.remove(operator=user):
        return False
    sign_out(user)
    return True


class UserAdmin(BaseUserAdmin, ConsoleAdmin):
    trail_kind = "user"
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    actions = ("sign_out_everywhere",)
    actions_detail = ("reset_second_factor",)
    inlines = (BoundsInline,)
    change_form_outer_after_template = TRAIL_LINK

    @admin.action(description="Sign out everywhere", permissions=["change"])
    def sign_out_everywhere(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """End all sessions of the chosen users; their next request asks for the password."""
        reached = [user for user in queryset if self.has_change_permission(request, user)]
        for user in reached:
            self.log_change(request, user, f"Signed out everywhere: {sign_out(user)} sessions ended.")
        beyond = queryset.count() - len(reached)
        more = f" {beyond} have more rights than you and stay signed in." if beyond else ""
        messages.success(request, f"Signed out: {', '.join(map(str, reached)) or 'no operator'}.{more}")

    def has_reset_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        """For other operators only: one's own second factor is removed with the password."""
        operator = self.get_object(request, str(object_id)) if object_id else None
        if operator is None or operator.pk == request.user.pk:
            return False
        return self.has_change_permission(request, operator)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        has_one = settings.SECOND_FACTOR != "off" and SecondFactor.objects.filter(pk=object_id).exists()
        return super().get_actions_detail(request, object_id) if has_one else []

    @action(
        description="Reset second factor",
        permissions=["reset"],
        icon="phonelink_erase",
        variant=ActionVariant.DANGER,
        dialog=ActionDialog(
            title="Reset the second factor?",
            description="For an operator whose telephone and recovery codes are lost: they sign in with the "
            "password only, and all their sessions end. Make sure that the request really comes from the "
            "operator.",
            form_class=BaseDialogForm,
            form_submit_text="Reset",
        ),
    )
    def reset_second_factor(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponseBase:
        operator = self.get_object(request, object_id)
        if operator is None:
            raise Http404
        if reset_second_factor(operator):
            self.log_change(request, operator, "Second factor reset.")
            messages.success(request, f"{operator} signs in with the password only.")
        else:
            messages.info(request, f"{operator} has no second factor.")
        return back_to(request, reverse("admin:auth_user_change", args=[operator.pk]))

    def get_inlines(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Bounds are set once the operator exists, and links to an identity provider if there is one."""
        if obj is None:
            return ()
        return (*super().get_inlines(request, obj), *((IdentityInline,) if settings.OIDC else ()))

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Also for the password's page, which asks this."""
        return super().has_change_permission(request, obj) and _in_reach(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Also for the list's "delete selected", which asks this for each."""
        return super().has_delete_permission(request, obj) and _in_reach(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Sessions go with their operator; to end them takes no right of its own."""
        deleted, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return (
            deleted,
            counts,
            lacking - {OperatorSession._meta.verbose_name},
            protected,
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        shown = tuple(super().get_readonly_fields(request, obj))
        if request.user.is_superuser:  # type: ignore[union-attr]
            return shown
        gives = obj is not None and obj.pk != request.user.pk and _gives_groups(request)
        return (*shown, *(name for name in RIGHTS if name != "groups" or not gives))

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field: Any = super().formfield_for_manytomany(db_field, request, **kwargs)
        if db_field.name == "groups" and not _is_superuser(request):
            # An operator who may do more is out of reach. So no group of an operator within reach is left out here,
            # which would take it away.
            beyond = [group.pk for group in Group.objects.all() if _holds_more(group, request.user)]
            field.queryset = field.queryset.exclude(pk__in=beyond)
        return field

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm]:
        if obj is not None and not self.has_change_permission(request, obj):
            kwargs["form"] = PlainUserChangeForm  # Unfold's needs a password to edit
        return super().get_form(request, obj, change=change, **kwargs)


class GroupAdmin(BaseGroupAdmin, ConsoleAdmin):
    """Permissions by group: to edit a group is to grant them."""

    trail_kind = "group"
    change_form_outer_after_template = TRAIL_LINK

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _is_superuser(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return _is_superuser(request)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return _is_superuser(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """``change_group`` shows too, as everywhere in Django, though here it changes nothing."""
        user: Any = request.user
        return user.has_perm("auth.view_group") or user.has_perm("auth.change_group")


def _gives_groups(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("tenants.change_operatorbounds"))  # type: ignore[union-attr]


def _holds_more(group: Group, than: Any) -> bool:
    rights = group.permissions.select_related("content_type")
    return not than.has_perms([f"{right.content_type.app_label}.{right.codename}" for right in rights])


def _is_superuser(request: HttpRequest) -> bool:
    user: Any = request.user
    return bool(user.is_active and user.is_superuser)


def _in_reach(request: HttpRequest, obj: Model | None) -> bool:
    return not isinstance(obj, User) or not may_do_more(obj, request.user)  # type: ignore[arg-type]
