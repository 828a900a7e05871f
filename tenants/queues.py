"""The broker's queues that tenants were granted beside their own. ``jobs`` says what a grant means."""

from collections.abc import Collection

from tenants.models import Tenant


def granted_queues(tenant_ids: Collection[int]) -> dict[int, list[str]]:
    """Names and patterns by tenant id. One look-up."""
    return dict(Tenant.objects.filter(id__in=tenant_ids).values_list("id", "queues"))
