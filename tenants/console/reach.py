"""Reach: which tenants an operator sees and acts on. Every list, search, link and action is held to it."""

from typing import Any, TypeVar

from django.db.models import Model, QuerySet

from tenants.models import OperatorBounds

M = TypeVar("M", bound=Model)


def tenants_within_reach(user: Any) -> frozenset[int] | None:
    """Ids of the tenants that ``user`` is bound to; None: all. Asked once for each request."""
    if user.is_superuser:
        return None
    if not hasattr(user, "_within_reach"):
        bounds = OperatorBounds.objects.filter(operator_id=user.pk).first()
        user._within_reach = frozenset(bounds.tenants.values_list("pk", flat=True)) if bounds else None
    within: frozenset[int] | None = user._within_reach
    return within


def held_to_reach(user: Any, rows: QuerySet[M], *, tenant: str = "tenant_id") -> QuerySet[M]:
    """Those of ``rows`` that belong to tenants within reach. ``tenant``: the column, or look-up, of a row's tenant."""
    within = tenants_within_reach(user)
    return rows if within is None else rows.filter(**{f"{tenant}__in": within})


def is_within_reach(user: Any, tenant_id: int | None) -> bool:
    """Whether ``user`` may see and act on what belongs to the tenant. None: what belongs to the installation."""
    within = tenants_within_reach(user)
    return within is None or tenant_id in within
