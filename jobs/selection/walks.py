"""Filters of lists (``GET /jobs``, ``/triggers``, ``/workflow-runs`` …), given as a JSON object of texts.

The same objects decide which rows a list shows and which rows an operation acts on. A walk goes by id, and looks at a
bounded number of rows at a time, as lists do.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.exceptions import ValidationError

from jobs.actions.bulk.operations import Selection
from jobs.core.errors import InvalidInput, unknown
from jobs.models import Job, Trigger, WorkflowRun
from jobs.models.firings.trigger import DEAD_LETTERS
from jobs.models.operation import RUN_VERBS, TRIGGER_VERBS
from jobs.selection.filters import DeadLetterFilter, JobFilter, ListFilter, TriggerFilter, UnfinishedFilter
from jobs.selection.workflows import RetriedRunFilter, UnfinishedRunFilter
from tenants.models import Tenant

#: The most rows that one slice looks at, and a dry run.
SLICE_ROWS, DRY_RUN_ROWS = 10_000, 100_000


def read_filter(wanted: object, *, verb: str, tenant: Tenant) -> dict[str, str]:
    """``wanted`` if it is a filter of the rows of ``verb``; raises ``InvalidInput`` and ``ValidationError``."""
    texts = _texts(wanted, kind=_kind(verb))
    _check(_filters(texts, verb=verb, tenant_id=tenant.id))
    return texts


def dead_letters(wanted: object, *, tenant: Tenant) -> QuerySet[Trigger]:
    """The dead letters that pass the filters of ``GET /dead-letters``; raises as ``read_filter`` does."""
    texts = _texts(wanted, kind=DeadLetterFilter)
    filters = DeadLetterFilter(texts, Trigger.objects.filter(DEAD_LETTERS, tenant=tenant))
    _check(filters)
    return filters.qs


def _texts(wanted: object, *, kind: type[ListFilter]) -> dict[str, str]:
    """``wanted`` if it is an object of texts that ``kind`` knows."""
    if not isinstance(wanted, dict):
        raise InvalidInput({"filter": "Must be an object; {} means all of them."})
    texts = {name: text for name, text in wanted.items() if text is not None}
    errors = unknown(texts, known=tuple(kind.base_filters))
    for name in sorted(kind.base_filters.keys() & texts.keys()):
        if not isinstance(texts[name], str) or not texts[name].strip():
            errors[name] = "Must be a text that says something, as in a query; leave it out to mean all."
    if errors:
        raise InvalidInput(errors).under("filter")
    return texts


def _check(filters: ListFilter) -> None:
    if not filters.is_valid():
        raise ValidationError({"filter": filters.errors})


def select(operation: Any, most: int) -> Selection:
    """The next ids that the operation (its row) is about."""
    filters = _filters(operation.filter, verb=operation.verb, tenant_id=operation.tenant_id)
    if not filters.is_valid():
        raise ValidationError(filters.errors)
    walk, last = _reach(filters, after=operation.cursor, most=SLICE_ROWS)
    matching = _sifted(filters, walk.filter(created_at__lte=operation.created_at))
    ids = list(matching.values_list("id", flat=True)[:most])
    if len(ids) == most:
        return Selection(ids, ids[-1], ends=False)
    return Selection(ids, last or (ids[-1] if ids else operation.cursor), ends=last is None)


def count(
    wanted: Mapping[str, str], *, verb: str, tenant: Tenant, most: int | None = None
) -> tuple[int, bool]:
    """How many match among the first ``most`` rows, ``DRY_RUN_ROWS`` by default, and whether those were all."""
    filters = _filters(wanted, verb=verb, tenant_id=tenant.id)
    walk, last = _reach(filters, after=UUID(int=0), most=most or DRY_RUN_ROWS)
    return _sifted(filters, walk).order_by().count(), last is None


def first(wanted: Mapping[str, str], *, verb: str, tenant: Tenant, most: int) -> list[UUID]:
    """The first ``most`` that match among the first ``DRY_RUN_ROWS`` rows."""
    filters = _filters(wanted, verb=verb, tenant_id=tenant.id)
    walk, _ = _reach(filters, after=UUID(int=0), most=DRY_RUN_ROWS)
    return list(_sifted(filters, walk).values_list("id", flat=True)[:most])


def _kind(verb: str) -> type[ListFilter]:
    if verb == "cancel_triggers":
        return UnfinishedFilter
    if verb in RUN_VERBS:
        return RetriedRunFilter if verb == "retry_runs" else UnfinishedRunFilter
    return TriggerFilter if verb in TRIGGER_VERBS else JobFilter


def _filters(wanted: Mapping[str, str], *, verb: str, tenant_id: int) -> ListFilter:
    rows: QuerySet[Any]
    if verb in TRIGGER_VERBS:
        rows = Trigger.objects.filter(tenant_id=tenant_id)
        if verb == "replay" and "state" not in wanted:
            rows = rows.filter(DEAD_LETTERS)
    elif verb in RUN_VERBS:
        rows = WorkflowRun.objects.filter(tenant_id=tenant_id)
    else:
        rows = Job.objects.filter(tenant_id=tenant_id, deleted_at=None)
    filters = _kind(verb)(dict(wanted), rows)
    filters.tenant_id, filters.by_id = tenant_id, True
    return filters


def _reach(filters: ListFilter, *, after: UUID, most: int) -> tuple[QuerySet[Any], UUID | None]:
    """The next ``most`` rows of the walk, and the last of them; None when it ends sooner."""
    assert filters.is_valid()
    walk = filters.walk(filters.queryset).filter(id__gt=after).order_by("id")
    last = walk.values_list("id", flat=True)[most - 1 : most].first()
    return (walk if last is None else walk.filter(id__lte=last)), last


def _sifted(filters: ListFilter, rows: QuerySet[Any]) -> QuerySet[Any]:
    sift = filters.sift()
    return sift(rows) if sift else rows
