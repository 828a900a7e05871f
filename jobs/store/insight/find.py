"""Searches by the beginning of a name, over several tenants at once. Only reads."""

from collections.abc import Sequence
from typing import Any

from jobs.store import db

_SQL = db.queries("find")
#: No character comes after it, in the order of bytes that names have.
_LAST = chr(0x10FFFF)


def names(prefix: str, *, tenant_ids: Sequence[int], limit: int) -> list[Any]:
    """At most ``limit`` living jobs of these tenants whose name begins with ``prefix``: id, name, status, tenant_id.

    Costs a look into the index for each tenant, until enough are found.
    """
    return _SQL["names"](prefix=prefix, beyond=prefix + _LAST, tenant_ids=list(tenant_ids), limit=limit)
