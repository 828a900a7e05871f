"""Reach: which tenants an operator sees and acts on. Every list, search, link and action is held to it.

Pages of rows are held by their base (``tenants.console.pages``); pages of another kind, and the views they fetch from,
call ``held_to_reach``. Objects that belong to no tenant are out of a bound operator's reach: rights over them count for
nothing.
"""

from typing import Any, TypeVar

from django import forms
from django.contrib import admin
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission
from django.db.models import Model, Q, QuerySet

from tenants.models import OperatorBounds, Tenant

M = TypeVar("M", bound=Model)
F = TypeVar("F", bound=forms.BaseForm)
#: A bound operator could make a tenant, but not reach it.
_BEYOND = "add_tenant"


def tenants_within_reach(user: Any) -> frozenset[int] | None:
    """Ids of the tenants that ``user`` is bound to; None: all. Asked once for each request."""
    if user.is_superuser:
        return None
    if not hasattr(user, "_within_reach"):
        # One row without a tenant: bound to none.
        rows = OperatorBounds.objects.filter(operator_id=user.pk).values_list("tenants", flat=True)
        bound = list(rows)
        user._within_reach = frozenset(bound) - {None} if bound else None
    within: frozenset[int] | None = user._within_reach
    return within


def held_to_reach(user: Any, rows: QuerySet[M], *, tenant: str = "tenant_id") -> QuerySet[M]:
    """Those of ``rows`` that belong to tenants within reach. ``tenant``: the column, or look-up, of a row's tenant."""
    within = tenants_within_reach(user)
    return rows if within is None else rows.filter(**{f"{tenant}__in": within})


def is_within_reach(user: Any, tenant_id: int | None) -> bool:
    """Whether ``user`` may see and act on the tenant's objects. None: the objects of the installation."""
    within = tenants_within_reach(user)
    return within is None or tenant_id in within


def form_within_reach(user: Any, form: type[F]) -> type[F]:
    """``form`` with only the tenants to choose from that ``user`` reaches; the id of another tenant is no choice."""
    if tenants_within_reach(user) is None:
        return form

    class Held(form):  # type: ignore[valid-type, misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            for field in self.fields.values():
                rows = getattr(field, "queryset", None)
                if rows is not None and rows.model is Tenant:
                    field.queryset = held_to_reach(user, rows, tenant="pk")

    Held.__name__ = form.__name__
    return Held


class BoundBackend(ModelBackend):
    """Django's backend, but only rights over tenants and their objects count for a bound operator."""

    def _get_user_permissions(self, user_obj: Any) -> QuerySet[Permission]:
        return _that_count(user_obj, super()._get_user_permissions(user_obj))  # type: ignore[misc]

    def _get_group_permissions(self, user_obj: Any) -> QuerySet[Permission]:
        return _that_count(user_obj, super()._get_group_permissions(user_obj))  # type: ignore[misc]


def _that_count(user: Any, rights: QuerySet[Permission]) -> QuerySet[Permission]:
    if tenants_within_reach(user) is None:
        return rights
    over = Q()
    for model, page in admin.site._registry.items():
        if getattr(page, "tenant_path", None):
            over |= Q(
                content_type__app_label=model._meta.app_label, content_type__model=model._meta.model_name
            )
    return rights.filter(over).exclude(codename=_BEYOND) if over else rights.none()
