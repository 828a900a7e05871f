"""The groups that Carillon comes with: viewer, operator, access administrator.

After each ``migrate`` they are given the permissions that they lack, so that they know new models. Permissions that a
superuser gives them beside that stay (a viewer's right to see payloads, say). For less than this, make another group.
"""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.db.models import Q

VIEWER, OPERATOR, ADMINISTRATOR = "viewer", "operator", "access administrator"
#: Permissions of Carillon's pages that an operator who only looks does not need.
_NOT_TO_VIEW = ("view_payload", "view_operatorsession")
_APPS = ("jobs", "tenants", "django_celery_results")


def keep_groups(**of_migrate: Any) -> None:
    """Make the groups and give them the permissions that they lack. May be repeated.

    It is connected to ``post_migrate`` of the last app: by then all permissions exist. When tests empty the database,
    that is no ``migrate``.
    """
    if "plan" not in of_migrate:
        return
    for name, rights in rights_of_groups().items():
        group, _ = Group.objects.get_or_create(name=name)
        lacking = Permission.objects.filter(rights).exclude(group=group)
        group.permissions.add(*lacking)


def rights_of_groups() -> dict[str, Q]:
    """The permissions that each group comes with."""
    shown = Q()
    for model in admin.site._registry:
        if model._meta.app_label in _APPS:
            shown |= Q(
                content_type__app_label=model._meta.app_label, content_type__model=model._meta.model_name
            )
    view = shown & Q(codename__startswith="view_") & ~Q(codename__in=_NOT_TO_VIEW)
    jobs = shown & Q(content_type__app_label="jobs")
    return {
        VIEWER: view,
        OPERATOR: view | jobs | _over("tenants", "tenant", "add", "change"),
        ADMINISTRATOR: view
        | _over("auth", "user", "view", "add", "change", "delete")
        | _over("auth", "group", "view")
        | _over("tenants", "operatorbounds", "view", "add", "change", "delete")
        | _over("tenants", "operatoridentity", "view", "add", "change", "delete")
        | _over("tenants", "operatorsession", "view", "delete")
        | _over("tenants", "apikey", "add", "change"),
    }


def _over(app: str, model: str, *verbs: str) -> Q:
    return Q(content_type__app_label=app, codename__in=[f"{verb}_{model}" for verb in verbs])
