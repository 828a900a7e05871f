"""Rekey: seal everything again under the first key, so that an older one can be taken away.

Walks each table by its key in slices, a transaction each, and takes only values sealed under another key. So it can be
stopped anywhere and started again, and may be repeated until none is left, which a process that still runs with the old
first key may delay. Nothing changes for readers; a writer of the same row waits for the slice.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Model

from tenants import second_factor
from tenants.models import SecondFactor, Secret, Tenant
from tenants.vault import secrets, signing
from tenants.vault.sealing import Place, Unreadable, current_prefix, key_id_of, seal, unseal

SLICE = 500


class Column(NamedTuple):
    """A column of sealed texts, separated by blanks where there are several."""

    model: type[Model]
    name: str
    place_of: Callable[[Any], Place]


COLUMNS = (
    Column(Secret, "sealed", secrets.place_of),
    Column(Tenant, "webhook_secret", lambda tenant: signing.place_of(tenant.id)),
    Column(SecondFactor, "sealed", lambda factor: second_factor.place_of(factor.pk)),
)


class Step(NamedTuple):
    """The result of a slice: rows looked at and sealed again so far in this table, and rows no key opens."""

    table: str
    looked_at: int
    sealed: int
    unreadable: tuple[Any, ...]


def rekey(*, slice_rows: int = SLICE) -> Iterator[Step]:
    """Seal again all values not sealed under the first key, a slice of ``slice_rows`` at each step."""
    for column in COLUMNS:
        last: Any = None
        looked_at = sealed = 0
        while True:
            last, seen, changed, unreadable = _slice(column, last, slice_rows)
            looked_at, sealed = looked_at + seen, sealed + changed
            yield Step(column.model._meta.db_table, looked_at, sealed, unreadable)
            if seen < slice_rows:
                break


def keys_in_use() -> Counter[str]:
    """How many texts are sealed under each key, by its id."""
    found: Counter[str] = Counter()
    for column in COLUMNS:
        for value in column.model._default_manager.values_list(column.name, flat=True).iterator():
            found.update(key_id_of(part) for part in value.split())
    return found


def _slice(column: Column, after: Any, limit: int) -> tuple[Any, int, int, tuple[Any, ...]]:
    prefix, changed, unreadable = current_prefix(), 0, []
    with transaction.atomic():
        rows = column.model._default_manager.select_for_update(no_key=True).order_by("pk")
        taken = list((rows if after is None else rows.filter(pk__gt=after))[:limit])
        for row in taken:
            parts = getattr(row, column.name).split()
            if all(part.startswith(prefix) for part in parts):
                continue
            try:
                anew = " ".join(
                    seal(unseal(part, column.place_of(row)), column.place_of(row)) for part in parts
                )
            except Unreadable:
                unreadable.append(row.pk)
                continue
            column.model._default_manager.filter(pk=row.pk).update(**{column.name: anew})
            changed += 1
    return (taken[-1].pk if taken else after), len(taken), changed, tuple(unreadable)
