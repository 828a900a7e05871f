"""The base of every page of the console: a list is filtered only by the filters that the page offers.

Django lets a list be filtered by any column of its model, shown or not. With ``?secret_hash__startswith=`` a user who
may look at a list could then spell a hidden column out, letter by letter, from the number of rows that are left.
"""

from collections.abc import Iterator
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.core.exceptions import FieldDoesNotExist
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from unfold.admin import ModelAdmin


def back_to(request: HttpRequest, url: str) -> HttpResponseBase:
    """To ``url``, whether the dialog was confirmed within the page or without JavaScript."""
    if request.headers.get("HX-Request"):
        return HttpResponse(headers={"HX-Redirect": url})
    return HttpResponseRedirect(url)


class ConsoleAdmin(ModelAdmin):
    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Whether ``lookup`` is a parameter of one of the page's ``list_filter``; otherwise Django answers 400."""
        return any(lookup in self._parameters(item) for item in self.get_list_filter(request))

    def _parameters(self, offered: Any) -> Iterator[str]:
        """Parameters of the links and forms of one filter."""
        if isinstance(offered, type) and issubclass(offered, SimpleListFilter):
            yield offered.parameter_name or ""
            return
        column = offered if isinstance(offered, str) else offered[0]
        yield from (f"{column}__exact", f"{column}__isnull")
        try:
            related = self.opts.get_field(column).related_model
        except FieldDoesNotExist:  # a filter through a relation: only the exact value of what it names
            return
        if related and related != "self":
            yield f"{column}__{related._meta.pk.name}__exact"
