"""Jobs that are not written yet: each is the job that a definition asks for, checked."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.db.models.base import ModelState

from jobs.actions import definition as definitions
from jobs.actions.pull.types import Kinds
from jobs.core.errors import InvalidInput
from jobs.core.pull import shown_name
from jobs.models import Job
from jobs.models.fields import new_id
from tenants.models import Tenant

#: A definition with more text beside its payload is not remembered. Those that fit are within every limit of bytes.
_MAX_REMEMBERED = 10_000


def draft_job(*, tenant: Tenant, definition: object, now: datetime, kinds: Kinds | None = None) -> Job:
    """The job that ``definition`` asks for at ``now`` (the database's), not yet written. Raises ``InvalidInput``."""
    columns = definitions.parse(definition, tenant=tenant, now=now, kinds=kinds)
    job_id = new_id()
    columns["name"] = columns["name"] or f"{shown_name(columns['job_type'])}-{job_id.hex[-12:]}"
    return Job(id=job_id, tenant=tenant, created_at=now, updated_at=now, **columns)


class Drafts:
    """``draft_job`` for many definitions of one tenant at one instant.

    Definitions that differ in name and payload alone, as those of a bulk mostly do, are read once.
    """

    def __init__(self, *, tenant: Tenant, now: datetime) -> None:
        self._tenant = tenant
        self._now = now
        self._kinds = Kinds(tenant)
        self._drafted: dict[str, Job] = {}

    def draft(self, definition: object) -> Job:
        """The job that ``definition`` asks for. Raises ``InvalidInput``."""
        rest = self._rest(definition)
        like = self._drafted.get(rest)
        if like is not None and isinstance(definition, dict):
            # ``draft_job``, which reads the whole of it, tells its faults.
            with suppress(InvalidInput):
                return self._alike(like, definition)
        job = draft_job(tenant=self._tenant, definition=definition, now=self._now, kinds=self._kinds)
        if len(rest) <= _MAX_REMEMBERED:
            self._drafted[rest] = job
        return job

    @staticmethod
    def _rest(definition: object) -> str:
        """A text that is the same for definitions that differ in name and payload alone."""
        if not isinstance(definition, dict):
            return ""
        return repr({name: value for name, value in definition.items() if name not in ("name", "payload")})

    def _alike(self, like: Job, definition: Mapping[str, Any]) -> Job:
        columns = definitions.own_columns(definition, tenant=self._tenant, kinds=self._kinds)
        return _twin(like, id=new_id(), **columns)


def _twin(like: Job, **columns: Any) -> Job:
    """A job that is not written yet, the same as ``like`` except for some ``columns``. To copy a model would cost as
    much as everything else that is done for a definition in a bulk.
    """
    twin, state = Job.__new__(Job), ModelState()
    state.fields_cache = dict(like._state.fields_cache)
    twin.__dict__.update(like.__dict__, _state=state, **columns)
    return twin
