"""Parts of the form that are fetched while the user types: for users who may write jobs, of tenants within reach."""

import re
from functools import cached_property
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from jobs.admin.shared.pages import ConsolePage
from tenants.console.reach import is_within_reach
from tenants.models import Tenant

_ID = re.compile("[0-9]{1,18}", re.ASCII)


class FormFragment(ConsolePage):
    """Answers a POST of the form's inputs; ``told`` is the context of its template."""

    title = ""
    http_method_names = ("post",)

    @property
    def permission(self) -> str:  # type: ignore[override]
        """The one that the user holds of the two permissions to write a job."""
        holds = self.request.user.has_perm("jobs.add_job")  # type: ignore[union-attr]
        return "jobs.add_job" if holds else "jobs.change_job"

    def post(self, request: HttpRequest) -> HttpResponse:
        return self.render_to_response(self.told())

    def told(self) -> dict[str, Any]:
        raise NotImplementedError

    @cached_property
    def tenant(self) -> Tenant | None:
        """The chosen tenant, if any. Raises ``PermissionDenied`` for one beyond reach."""
        given = self.request.POST.get("tenant", "")
        if not _ID.fullmatch(given):
            return None
        if not is_within_reach(self.request.user, int(given)):
            raise PermissionDenied
        return Tenant.objects.filter(pk=int(given)).first()
