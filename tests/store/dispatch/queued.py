"""The triggers that dispatch queued, as its tests read them."""

from collections import Counter
from typing import Any

from jobs.models import Trigger
from jobs.store import dispatch as dispatch_store


def shares(queued: list[dispatch_store.Queued], *, by: str = "tenant_id") -> Counter[Any]:
    owners = dict(Trigger.objects.values_list("id", by))
    return Counter(owners[item.id] for item in queued)
