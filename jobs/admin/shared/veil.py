"""Payloads, results, answers and outputs: shown only to users who hold the right to see them.

A page of rows names its fields of that kind in ``veiled``; other pages ask ``may_see_payloads``. Errors and states
stay: without them no operator could look after jobs.
"""

from collections.abc import Collection, Iterable
from typing import Any

RIGHT = "jobs.view_payload"
HIDDEN = "hidden: you need the right to see payloads"
#: The display that stands in the place of veiled fields; bases of pages have a method of this name.
NOTE = "hidden_fields"


def may_see_payloads(user: Any) -> bool:
    return bool(user.has_perm(RIGHT))


def veil(fieldsets: Iterable[Any], veiled: Collection[str]) -> tuple[Any, ...]:
    """``fieldsets`` without the fields of ``veiled``, and a note where the first of each set was."""
    return tuple(
        (title, options | {"fields": _kept(options["fields"], veiled)}) for title, options in fieldsets
    )


def _kept(fields: Iterable[Any], veiled: Collection[str]) -> tuple[Any, ...]:
    kept: list[Any] = []
    for entry in fields:
        if isinstance(entry, str):
            shown: Any = entry if entry not in veiled else None
        else:
            shown = tuple(name for name in entry if name not in veiled) or None
        if shown is not None:
            kept.append(shown)
        if shown != entry and NOTE not in kept:
            kept.append(NOTE)
    return tuple(kept)
