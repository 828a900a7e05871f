"""The base of every page of the console: a page keeps to its operator's reach and to its own filters.

Reach is held in one place. Rows come from ``get_queryset``, which knows only rows within reach, so that a list, a page,
a search, an autocomplete, an action and a delete find no others. Every address with a row's id in it is looked up there
before its view is called, no matter which view. ``tenant_path`` names a row's tenant. A page without one shows rows
that belong to no tenant, and is closed to bound operators (``tenants.console.reach``).

Django lets a list be filtered by any column of its model, shown or not. With ``?secret_hash__startswith=`` a user who
may look at a list could then spell a hidden column out, letter by letter, from the number of rows that are left. So a
list takes the filters that its page offers, and no others.
"""

from collections.abc import Callable, Iterator
from functools import update_wrapper
from operator import attrgetter
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.utils import unquote
from django.core.exceptions import FieldDoesNotExist, PermissionDenied, ValidationError
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    QueryDict,
)
from django.urls import URLPattern, reverse
from unfold.admin import ModelAdmin

from tenants.console.reach import form_within_reach, held_to_reach, is_within_reach, tenants_within_reach


def back_to(request: HttpRequest, url: str) -> HttpResponseBase:
    """To ``url``, whether the dialog was confirmed within the page or without JavaScript."""
    if request.headers.get("HX-Request"):
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


class ConsoleAdmin(ModelAdmin):
    #: The column, or look-up, of a row's tenant; None: its rows belong to the installation.
    tenant_path: str | None = None
    #: The kind of its rows on the audit trail; empty: the trail tells nothing of them.
    trail_kind = ""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        if self.tenant_path:
            return held_to_reach(request.user, rows, tenant=self.tenant_path)
        return rows if self._is_open_to(request) else rows.none()

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm]:
        return form_within_reach(request.user, super().get_form(request, obj, change=change, **kwargs))

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        trail = {"trail_url": self._trail_of(object_id)} if object_id and self.trail_kind else {}
        return super().changeform_view(request, object_id, form_url, trail | (extra_context or {}))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        """Show the trail, which has all changes of a row: Django's own history knows those of the console alone."""
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        if row is None:
            raise Http404
        page = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return HttpResponseRedirect(
            self._trail_of(object_id) if self.trail_kind else reverse(page, args=[object_id])
        )

    def _trail_of(self, object_id: str) -> str:
        query = QueryDict(mutable=True)
        query["kind"], query["object"] = self.trail_kind, unquote(object_id)
        return f"{reverse('admin:jobs_change_changelist')}?{query.urlencode()}"

    @property
    def urls(self) -> list[URLPattern]:
        return [self._guarded(pattern) for pattern in self.get_urls()]

    def _guarded(self, pattern: URLPattern) -> URLPattern:
        view: Callable[..., HttpResponseBase] = pattern.callback

        def guard(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.user.is_authenticated and tenants_within_reach(request.user) is not None:
                self._refuse_what_is_out_of_reach(request, kwargs.get("object_id"))
            return view(request, *args, **kwargs)

        return URLPattern(pattern.pattern, update_wrapper(guard, view), pattern.default_args, pattern.name)

    def _refuse_what_is_out_of_reach(self, request: HttpRequest, object_id: str | None) -> None:
        """A row of another tenant is answered as one that is not there."""
        if not self._is_open_to(request):
            raise PermissionDenied
        if object_id is not None and self.get_object(request, unquote(object_id)) is None:
            raise Http404

    def _is_open_to(self, request: HttpRequest) -> bool:
        return self.tenant_path is not None or tenants_within_reach(request.user) is None

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self._reaches(request, obj) and super().has_view_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self._reaches(request, obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self._reaches(request, obj) and super().has_delete_permission(request, obj)

    def _reaches(self, request: HttpRequest, obj: object) -> bool:
        if not self._is_open_to(request):
            return False
        if self.tenant_path is None or not isinstance(obj, self.model):
            return True
        return is_within_reach(request.user, attrgetter(self.tenant_path.replace("__", "."))(obj))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Whether ``lookup`` is a parameter of one of the page's ``list_filter``, and names nothing out of reach.

        Otherwise Django answers 400.
        """
        offered = any(lookup in self._parameters(item) for item in self.get_list_filter(request))
        return offered and self._names_what_is_reached(request, lookup, value)

    def _names_what_is_reached(self, request: HttpRequest, lookup: str, value: str) -> bool:
        """A filter by a row shows the row's name."""
        user: Any = getattr(request, "user", None)
        column, _, kind = lookup.rpartition("__")
        if user is None or tenants_within_reach(user) is None or kind == "isnull":
            return True
        try:
            related: Any = self.opts.get_field(column.partition("__")[0]).related_model
        except FieldDoesNotExist:
            return True
        page = self.admin_site._registry.get(related)
        if page is None:
            return True
        try:
            return bool(page.get_queryset(request).filter(pk=value).exists())
        except (ValueError, ValidationError):
            return False

    def _parameters(self, offered: Any) -> Iterator[str]:
        """Parameters of the links and forms of one filter."""
        if isinstance(offered, type) and issubclass(offered, SimpleListFilter):
            yield offered.parameter_name or ""
            return
        column = offered if isinstance(offered, str) else offered[0]
        yield from (f"{column}__exact", f"{column}__isnull")
        try:
            related = self.opts.get_field(column).related_model
        except FieldDoesNotExist:  # a filter through a relation: only the exact value of its column
            return
        if related and related != "self":
            yield f"{column}__{related._meta.pk.name}__exact"
