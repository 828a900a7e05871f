"""Counts put on record at once, and read from there."""

from collections import Counter
from collections.abc import Mapping

from jobs.activity import Key, OwnKey
from jobs.core.activity import KINDS
from jobs.models import ActivityMinute
from jobs.store.insight import activity


def record(
    counts: Mapping[Key, Mapping[str, int]], own: Mapping[OwnKey, Mapping[str, int]] | None = None
) -> None:
    """Report these counts and add them up, as a process and the leader do."""
    activity.report(
        {key: dict(kinds) for key, kinds in counts.items()}, {k: dict(v) for k, v in (own or {}).items()}
    )
    add_up()


def add_up() -> None:
    while activity.fold():
        pass


def on_record(model: type = ActivityMinute) -> dict[tuple[int, str], dict[str, int]]:
    """The counts on record once all reports are added up: of all minutes, by tenant and job type. Kinds without one
    are left out.
    """
    add_up()
    found: dict[tuple[int, str], Counter[str]] = {}
    for row in model.objects.filter(tenant_id__gte=0).values():
        counts = {kind: row[kind] for kind in KINDS if row[kind] is not None}
        found.setdefault((row["tenant_id"], row["job_type"]), Counter()).update(counts)
    return {key: dict(counts) for key, counts in found.items()}
