"""Bounds on an operator's page: operators who may change them set them for others, and never for themselves."""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from unfold.admin import StackedInline

from tenants.models import OperatorBounds


class BoundsInline(StackedInline):
    """No row: every tenant. A row that names none: no tenant."""

    model = OperatorBounds
    autocomplete_fields = ("tenants",)
    extra = 0
    max_num = 1
    verbose_name = "bounds"
    verbose_name_plural = "bounds"

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field: Any = super().formfield_for_manytomany(db_field, request, **kwargs)
        field.help_text = (
            "The operator sees and changes only these tenants; none: no tenant. Without bounds: all tenants."
        )
        return field

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_set(request, obj) and super().has_add_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_set(request, obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_set(request, obj) and super().has_delete_permission(request, obj)


def may_set(request: HttpRequest, operator: Any) -> bool:
    """Whether the user may set the identity or the reach of ``operator``: of others only, never one's own."""
    return not isinstance(operator, User) or operator.pk != request.user.pk
