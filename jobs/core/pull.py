"""How the job types that tenants declare are named: each tenant's ``billing`` is a type, and a queue, of its own.

The type is stored as ``billing@<tenant id>``, so that queues, windows and caps never mix the work of two tenants. No
registered type can have such a name. Callers see and write ``billing``.
"""

MARK = "@"
#: The room that the column has beside the mark and the largest tenant id.
MAX_NAME_LENGTH = 40


def stored_name(name: str, *, tenant_id: int) -> str:
    """The job type that is stored with jobs and triggers of the tenant's pull type ``name``."""
    return f"{name}{MARK}{tenant_id}"


def shown_name(job_type: str) -> str:
    """The job type as its tenant knows it, for either kind of type."""
    return job_type.partition(MARK)[0]


def is_pull(job_type: str) -> bool:
    """Whether pull workers serve a stored job type, rather than Celery's."""
    return MARK in job_type


def owner_of(job_type: str) -> int | None:
    """The id of the tenant that declared a stored job type; None for one of the installation."""
    owner = job_type.partition(MARK)[2]
    return int(owner) if owner.isascii() and owner.isdecimal() and len(owner) < 19 else None
