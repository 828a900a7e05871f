"""The jobs of a bulk action, tenant by tenant, as a filter that an operation can repeat.

The list's own filter is read again. A parameter that no operation knows is refused: without it, the action would touch
more jobs than the list shows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import QueryDict
from rest_framework.exceptions import ValidationError

from jobs.admin.shared.shares import Share
from jobs.core.errors import CarillonError
from jobs.core.policies import Priority
from jobs.models import Job
from jobs.selection import walks
from jobs.selection.filters import MAX_IDS
from tenants.console.reach import held_to_reach
from tenants.models import Tenant

#: Tenants that one click may touch.
MAX_TENANTS = 10
#: Rows looked at in all, however many tenants there are.
MAX_LOOKED_AT = walks.DRY_RUN_ROWS
#: Parameters of a list's address that do not decide which rows match.
_OF_THE_LIST = frozenset(("p", "o", "e", "all", "beyond", "_changelist_filters"))


class CannotTell(CarillonError):
    """The chosen jobs cannot be named to an operation."""


def _priority(value: str) -> str:
    return Priority(int(value)).label


_FILTERS: dict[str, tuple[str, Callable[[str], str]]] = {
    "status__exact": ("status", str),
    "schedule_type__exact": ("schedule_type", str),
    "priority__exact": ("priority", _priority),
    "job_type": ("job_type", str),
    "label": ("labels", str.strip),
    "ids": ("ids", str),
}


@dataclass(frozen=True)
class Chosen:
    """``wanted``: a filter of jobs. ``tenant_id``: the one tenant that is named; None: any within reach."""

    wanted: dict[str, str]
    tenant_id: int | None

    @property
    def in_words(self) -> str:
        words = [f"{name} {value}" for name, value in self.wanted.items() if name != "ids"]
        return ", ".join(words) or ("the ones you ticked" if self.wanted else "all of them")


def chosen(query: QueryDict) -> Chosen:
    """The choice that the parameters of the list's address mean. Raises ``CannotTell``."""
    wanted: dict[str, str] = {}
    tenant_id = None
    for name, values in query.lists():
        value = values[-1].strip()
        if name in _OF_THE_LIST or not value or (name, value) == ("tab", "newest"):
            continue
        if len(values) > 1:
            raise CannotTell(f"The list is filtered by several values of {name}; choose one.")
        try:
            if name == "tenant__id__exact":
                tenant_id = int(value)
            elif name == "q":
                wanted |= _searched(value)
            else:
                term, read = _FILTERS[name]
                wanted[term] = read(value)
        except (KeyError, ValueError):
            raise CannotTell(
                f"An operation cannot filter by {name}={value}: leave that filter out."
            ) from None
    return Chosen(wanted, tenant_id)


def _searched(text: str) -> dict[str, str]:
    """As ``JobAdmin`` searches: an id, or the beginning of a name."""
    try:
        return {"ids": str(UUID(text))}
    except ValueError:
        return {"name_prefix": text}


def shares(user: Any, choice: Chosen, *, verb: str) -> list[Share]:
    """The tenants within reach that have jobs that match, and how many. Raises ``CannotTell``."""
    tenants = held_to_reach(user, Tenant.objects.order_by("slug"), tenant="pk")
    if choice.tenant_id is not None:
        tenants = tenants.filter(pk=choice.tenant_id)
    if "ids" in choice.wanted:
        tenants = tenants.filter(pk__in=_tenants_of(choice.wanted["ids"]))
    rows = list(tenants[: MAX_TENANTS + 1])
    if len(rows) > MAX_TENANTS:
        raise CannotTell(
            f"The jobs may belong to more than {MAX_TENANTS} tenants: choose a tenant in the filters."
        )
    each = MAX_LOOKED_AT // max(1, len(rows))
    found = [Share(tenant, *_count(choice, tenant=tenant, verb=verb, most=each)) for tenant in rows]
    return [share for share in found if share.matching or not share.exact]


def _tenants_of(text: str) -> list[int]:
    ids = text.split(",")
    if len(ids) > MAX_IDS:
        raise CannotTell(f"At most {MAX_IDS} jobs can be ticked at once.")
    try:
        wanted = [UUID(one) for one in ids]
    except ValueError:
        raise CannotTell("These are not ids of jobs.") from None
    rows = Job.objects.filter(id__in=wanted, deleted_at=None).order_by()
    return list(rows.values_list("tenant_id", flat=True).distinct())


def _count(choice: Chosen, *, tenant: Tenant, verb: str, most: int) -> tuple[int, bool]:
    try:
        wanted = walks.read_filter(choice.wanted, verb=verb, tenant=tenant)
    except ValidationError as error:
        raise CannotTell(f"The filter cannot be read: {error.detail}") from error
    return walks.count(wanted, verb=verb, tenant=tenant, most=most)
