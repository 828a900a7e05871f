"""The counts that are on record, as tests of them read them."""

from collections import Counter

from jobs.core.activity import KINDS
from jobs.models import ActivityMinute


def on_record(model: type = ActivityMinute) -> dict[tuple[int, str], dict[str, int]]:
    """The counts on record, with the minutes of a tenant and job type added up. Kinds without one are left out."""
    found: dict[tuple[int, str], Counter[str]] = {}
    for row in model.objects.filter(tenant_id__gte=0).values():
        counts = {kind: row[kind] for kind in KINDS if row[kind] is not None}
        found.setdefault((row["tenant_id"], row["job_type"]), Counter()).update(counts)
    return {key: dict(counts) for key, counts in found.items()}
