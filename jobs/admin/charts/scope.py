"""The scope of charts: a span of time, and a tenant, a job type or a job, or all; held to the operator's reach."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404
from django.urls import reverse

from jobs.core.activity import ALL_TENANTS
from jobs.core.pull import owner_of, shown_name
from jobs.models import Job
from jobs.store.insight.outcomes import SPANS, Window
from tenants.console.reach import held_to_reach, tenants_within_reach
from tenants.models import Tenant

USUAL_SPAN = "6h"
#: For an operator who is bound to more tenants, charts show so many together.
MAX_TENANTS = 10
MAX_NAME = 63


@dataclass(frozen=True, slots=True)
class Scope:
    """``job_type``: its stored name; '': all. ``tenant_ids``: the tenants that are counted; ``is_all``: of all."""

    span: str
    tenant: Tenant | None
    job_type: str
    job: Job | None
    tenant_ids: tuple[int, ...]
    is_cut: bool = False

    @property
    def window(self) -> Window:
        return SPANS[self.span]

    @property
    def is_all(self) -> bool:
        return self.tenant_ids == (ALL_TENANTS,)

    @property
    def subject(self) -> str:
        """The subject of the charts, for their heading."""
        if self.job is not None:
            return f"{self.job.tenant.slug}/{self.job.name or self.job.id}"
        whose = self.tenant.slug if self.tenant else "all tenants" if self.is_all else "your tenants"
        return f"{whose}, job type {shown_name(self.job_type)}" if self.job_type else whose

    def asking(self, **changes: str) -> str:
        """The query string of this scope, with ``changes``."""
        own = {
            "span": self.span,
            "tenant": self.tenant.slug if self.tenant and not self.job else "",
            "type": self.job_type,
            "job": str(self.job.pk) if self.job else "",
        }
        return urlencode({name: value for name, value in (own | changes).items() if value})

    def page(self, **changes: str) -> str:
        return f"{reverse('console_charts')}?{self.asking(**changes)}"

    def fragment(self, **changes: str) -> str:
        return f"{reverse('console_charts_figures')}?{self.asking(**changes)}"


def scope_of(user: Any, asked: Mapping[str, str]) -> Scope:
    """The scope that a query string asks for. Raises ``Http404`` for a tenant or job that is not within reach."""
    span = asked.get("span", USUAL_SPAN)
    job = _job(user, asked.get("job", ""))
    tenant = job.tenant if job else _tenant(user, asked.get("tenant", "").strip())
    within = tenants_within_reach(user)
    ids = (tenant.pk,) if tenant else (ALL_TENANTS,) if within is None else tuple(sorted(within))
    return Scope(
        span=span if span in SPANS else USUAL_SPAN,
        tenant=tenant,
        job_type="" if job else asked.get("type", "").strip()[:MAX_NAME],
        job=job,
        tenant_ids=ids[:MAX_TENANTS],
        is_cut=len(ids) > MAX_TENANTS,
    )


def type_charts(job_type: str) -> str:
    """The query string of charts of a job type, by its stored name. A type that a tenant declared is that tenant's."""
    owner = owner_of(job_type)
    slug = Tenant.objects.filter(pk=owner).values_list("slug", flat=True).first() if owner else ""
    return urlencode({"tenant": slug, "type": job_type} if slug else {"type": job_type})


def _tenant(user: Any, slug: str) -> Tenant | None:
    if not slug:
        return None
    found = held_to_reach(user, Tenant.objects.filter(slug=slug), tenant="pk").first()
    if found is None:
        raise Http404(f"There is no tenant {slug}.")
    return found


def _job(user: Any, text: str) -> Job | None:
    if not text:
        return None
    try:
        wanted = UUID(text)
    except ValueError:
        raise Http404("This is not the id of a job.") from None
    found = held_to_reach(user, Job.objects.filter(id=wanted)).select_related("tenant").first()
    if found is None:
        raise Http404("There is no such job.")
    return found
