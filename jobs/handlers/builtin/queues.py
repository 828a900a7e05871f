"""Queues of the broker: which names they may have, and which of them a tenant's jobs may write to.

A tenant's own queues lie under its prefix; an operator may grant it others. A slug holds no dot, so one tenant's prefix
is never the beginning of another's.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator

#: Before the name of every queue that is some tenant's own.
TENANTS = "tenant."
_QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")
#: Queues of Carillon itself, and names that Celery and kombu use inside the broker. A message there would be taken for
#: one of theirs (a remote-control command, say). Carillon's other keys in Redis begin with a brace, as no queue may.
_RESERVED_PREFIXES = ("jobs.", "carillon:", "_kombu", "unacked", "celeryev", "celery-task-meta")


def own_prefix(tenant: str) -> str:
    """``tenant.acme.``, by the tenant's slug."""
    return f"{TENANTS}{tenant}."


def is_own(queue: str, *, tenant: str) -> bool:
    return queue.startswith(own_prefix(tenant)) and queue != own_prefix(tenant)


def may_write(queue: str, *, tenant: str, granted: Iterable[str]) -> bool:
    """``granted``: names and patterns with ``*`` and ``?``.

    A pattern does not match another tenant's queue by accident: such a grant must spell out the other tenant's prefix.
    """
    if is_own(queue, tenant=tenant):
        return True
    if queue.startswith(TENANTS):
        granted = (pattern for pattern in granted if pattern.startswith(TENANTS))
    return any(fnmatchcase(queue, pattern) for pattern in granted)


def refusal(queue: str, *, tenant: str) -> str:
    """Why the tenant may not write to a queue, and which queues it may write to."""
    return (
        f"The queue {queue!r} is not yours. The names of yours begin with {own_prefix(tenant)}; an operator can grant "
        f"others: manage.py update_tenant {tenant} --queues NAME,PATTERN."
    )


def _check_queue(name: str) -> str:
    if not _QUEUE.fullmatch(name):
        raise ValueError(
            "A queue's name is 1 to 200 of the characters A-Z a-z 0-9 _ . : - and begins with none of .:-"
        )
    if name.startswith(_RESERVED_PREFIXES) or "pidbox" in name:
        raise ValueError(
            "Queues named jobs.* or carillon:* and those of the broker's own bookkeeping are not for payloads."
        )
    return name


QueueName = Annotated[str, AfterValidator(_check_queue)]
