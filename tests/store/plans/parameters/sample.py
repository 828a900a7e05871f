"""The values from which a call's parameters are made: a hundred triggers and jobs of a ledger, or none."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobs.models import Job, Trigger
from tests import factories

HOUR = timedelta(hours=1)
LEADERSHIP = {"term": 1}


@dataclass(frozen=True)
class Sample:
    ids: list[UUID]
    job_ids: list[UUID]
    tenant_ids: list[int]
    now: datetime

    @property
    def tenant_id(self) -> int:
        return self.tenant_ids[0] if self.tenant_ids else 1

    def some(self, value: Any) -> list[Any]:
        return [value] * len(self.ids)


#: From the name of a query to the function that makes its parameters.
Parameters = dict[str, Callable[[Sample], dict[str, Any]]]


def one(values: list[Any]) -> Any:
    return values[0] if values else UUID(int=1)


def sample() -> Sample:
    return Sample(
        ids=list(Trigger.objects.values_list("id", flat=True)[:100]),
        job_ids=list(Job.objects.values_list("id", flat=True)[:100]),
        tenant_ids=sorted(set(Job.objects.values_list("tenant_id", flat=True))),
        now=factories.now(),
    )
