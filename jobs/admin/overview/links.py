"""Links from a figure to the list it counts, from a reason to the page that helps; None where the user may not look."""

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import reverse

from jobs.core.judgement import Reason
from jobs.core.judgement.reason import Page
from tenants.console.reach import tenants_within_reach


class Links:
    """The links for one user."""

    def __init__(self, user: Any) -> None:
        self._user = user

    def triggers(self, **filters: object) -> str | None:
        return self._list("jobs", "trigger", filters)

    def attempts(self, **filters: object) -> str | None:
        return self._list("jobs", "attempt", filters)

    def dead_letters(self, *, tenant: int) -> str | None:
        if not self._may_view("jobs", "trigger"):
            return None
        query = {"tenant__id__exact": tenant, "died": "24h"}
        return f"{reverse('admin:jobs_deadletter_changelist')}?{urlencode(query)}"

    def tenant(self, tenant_id: int | str) -> str | None:
        return self._row("tenants", "tenant", tenant_id)

    def job_type(self, name: str) -> str | None:
        return self._row("jobs", "queue", name)

    def workers(self) -> str | None:
        sees = self._may_view("jobs", "queue") and not self._is_bound
        return reverse("workers") if sees else None

    def installation(self) -> str | None:
        sees = self._may_view("jobs", "installation") and not self._is_bound
        return reverse("installation_state") if sees else None

    def of(self, reason: Reason) -> str | None:
        """The page that helps against ``reason``."""
        match reason.page:
            case Page.TENANT:
                return self.tenant(reason.about)
            case Page.TYPE:
                return self.job_type(reason.about)
            case Page.LEASES:
                return self._list("jobs", "lease")
            case Page.DISPATCH:
                return self._list("jobs", "installation")
            case Page.TARGETS:
                return None if self._is_bound else self._list("jobs", "targetrule")
            case Page.BREAKERS:
                return self._list("jobs", "breaker")
            case Page.SKIPPED:
                return self.triggers(state__exact="skipped")
            case Page.LOST:
                return self.attempts(state__exact="lost")
            case Page.TRIGGERS:
                return self.triggers()
            case Page.WORKERS:
                return self.workers()
            case Page.INSTALLATION:
                return self.installation()

    def _list(self, app: str, model: str, filters: dict[str, object] | None = None) -> str | None:
        if not self._may_view(app, model):
            return None
        url = reverse(f"admin:{app}_{model}_changelist")
        return f"{url}?{urlencode(filters)}" if filters else url

    def _row(self, app: str, model: str, key: int | str) -> str | None:
        if not self._may_view(app, model):
            return None
        return reverse(f"admin:{app}_{model}_change", args=[quote(key)])

    @property
    def _is_bound(self) -> bool:
        """Whether the user reaches only some tenants, and no page of the installation as a whole."""
        return tenants_within_reach(self._user) is not None

    def _may_view(self, app: str, model: str) -> bool:
        return bool(
            self._user.has_perm(f"{app}.view_{model}") or self._user.has_perm(f"{app}.change_{model}")
        )
