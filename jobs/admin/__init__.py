"""The operators' console. Engine rows are read-only; every write is a call of ``jobs.actions``.

Importing this package registers each page. Lists over large tables never count, join or sort (``shared.lists``).
"""

from jobs.admin import trail
from jobs.admin.firings import attempt, dead_letter, result, trigger
from jobs.admin.installation import breakers, lease, levers, targets
from jobs.admin.job import page as job
from jobs.admin.operations import operation
from jobs.admin.tenant import page as tenant
from jobs.admin.workflows import definition, run

__all__ = (
    "attempt",
    "breakers",
    "dead_letter",
    "definition",
    "job",
    "lease",
    "levers",
    "operation",
    "result",
    "run",
    "targets",
    "tenant",
    "trail",
    "trigger",
)
