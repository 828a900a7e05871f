"""Declaring pull types, and finding the job type that a tenant's word names: its own, or a registered one.

A type that still has jobs cannot be withdrawn: their firings would wait for ever. Each write of a job of a type locks
the type's row against that.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jobs.actions.pull import json_schema
from jobs.actions.pull.json_schema import Allowance
from jobs.core.errors import Conflict, InvalidInput, NotFound
from jobs.core.pull import MAX_NAME_LENGTH, is_pull, shown_name, stored_name
from jobs.core.states import UNFINISHED
from jobs.handlers import registry
from jobs.handlers.registry import JobType, UnknownJobType
from jobs.models import Job, PullType, Trigger, Workflow
from jobs.shapes.pull import Declaration, JobTypeShape
from jobs.store import db, pull
from tenants.clock import database_now
from tenants.models import Tenant

#: The most pull types of a tenant; each is a queue configuration for every beat.
MAX_TYPES = 100


@dataclass(frozen=True, slots=True)
class Kind:
    """The facts of a type that writing a job needs. ``job_type`` is stored; ``check`` raises ``InvalidInput``."""

    job_type: str
    timeout: timedelta
    check: Callable[[Any], None]
    target: Callable[[dict[str, Any]], str] | None = None
    secrets: Callable[[dict[str, Any]], dict[str, list[str]]] | None = None
    max_timeout: timedelta | None = None
    sends_to: Callable[[dict[str, Any]], str] | None = None


def own_name(name: object, *, tenant: Tenant) -> str:
    """The name of a pull type that ``tenant`` may mean by ``name``; empty where it can mean none."""
    if not isinstance(name, str):
        return ""
    shown = shown_name(name) if name.endswith(stored_name("", tenant_id=tenant.id)) else name
    return shown if registry.NAME.fullmatch(shown) else ""


def kind_of(
    name: object, *, tenant: Tenant, allowance: Allowance | None = None, undeclared: Collection[str] = ()
) -> Kind:
    """The type that ``tenant`` calls ``name``, its own before a registered one. Raises ``UnknownJobType``.

    Jobs whose payloads one call checks share ``allowance``; ``undeclared`` are names known to be no types of its own.
    """
    asked = own_name(name, tenant=tenant)
    own = _find(tenant, asked) if asked and asked not in undeclared else None
    if own is not None:
        return Kind(own.job_type, own.timeout, _check_of(own, allowance or Allowance()))
    try:
        registered = registry.get(name)  # type: ignore[arg-type]
    except UnknownJobType:
        raise UnknownJobType(str(name), known=names(tenant)) from None
    if registered not in offered(tenant):
        raise UnknownJobType(str(name), known=names(tenant), switched_off=not registered.is_system)
    return Kind(
        registered.name,
        registered.timeout,
        lambda payload: registry.validate_payload(registered.name, payload),
        registered.target,
        registered.secrets,
        registered.max_timeout and registered.max_timeout(),
        registered.sends_to,
    )


class Kinds:
    """``kind_of`` for many jobs of one tenant: each word is looked up once."""

    def __init__(self, tenant: Tenant, *, undeclared: Collection[str] = ()) -> None:
        self._tenant = tenant
        self._undeclared = undeclared
        self._found: dict[str, Kind | UnknownJobType] = {}
        self._allowance = Allowance()

    @property
    def spent(self) -> bool:
        """Whether another payload might be refused because of the cost of checking others."""
        return self._allowance.steps < json_schema.MAX_STEPS

    def __call__(self, name: object) -> Kind:
        if not isinstance(name, str):
            return kind_of(name, tenant=self._tenant)  # which will raise
        if name not in self._found:
            try:
                self._found[name] = kind_of(
                    name, tenant=self._tenant, allowance=self._allowance, undeclared=self._undeclared
                )
            except UnknownJobType as error:
                self._found[name] = error
        found = self._found[name]
        if isinstance(found, UnknownJobType):
            raise found
        return found


def names(tenant: Tenant) -> list[str]:
    """Every job type the tenant may use."""
    own = PullType.objects.filter(tenant=tenant).values_list("name", flat=True)
    return sorted({*own, *(job_type.name for job_type in offered(tenant))})


def offered(tenant: Tenant) -> list[JobType]:
    """The registered types that the tenant may use, by name."""
    return [kind for kind in registry.public_types() if kind.name not in tenant.disabled_types]


def types_of(tenant: Tenant) -> list[PullType]:
    """The tenant's pull types by name."""
    return list(PullType.objects.filter(tenant=tenant).order_by("name"))


def find_type(*, tenant: Tenant, name: str) -> PullType:
    """One of the tenant's pull types. Raises ``NotFound``."""
    found = _find(tenant, name)
    if found is None:
        raise NotFound("There is no such job type.")
    return found


def claimable(*, tenant: Tenant, asked: Iterable[str]) -> list[str]:
    """The stored job types of the triggers that the tenant's pull workers may claim by the names ``asked``, each once:
    its pull types, and registered types that are shared with them. Raises ``NotFound``."""
    wanted = dict.fromkeys(asked)
    own = pull.types_among(
        tenant_id=tenant.id, names=[name for name in wanted if registry.NAME.fullmatch(name)]
    )
    shared = {kind.name: kind.name for kind in offered(tenant) if kind.pull}
    stored = {**shared, **own}
    if not wanted.keys() <= stored.keys():
        raise NotFound("There is no such job type.")
    return [stored[name] for name in wanted]


def declare_type(*, tenant: Tenant, name: str, declaration: object) -> tuple[PullType, bool]:
    """Create the pull type ``name`` or replace its declaration. Returns it and whether it is new; may be repeated.

    Jobs that exist keep their payloads and time-outs. Raises ``InvalidInput``, and ``Conflict`` when a registered type
    has the name or the tenant has ``MAX_TYPES``.
    """
    columns = _parse(name, declaration)
    if name.startswith(registry.SYSTEM_PREFIX) or name in {it.name for it in registry.all_types()}:
        raise Conflict(f"{name} is a job type of this installation; choose another name.", field="name")
    with db.atomic():
        Tenant.objects.select_for_update(no_key=True).get(id=tenant.id)
        now = database_now()
        found = _find(tenant, name)
        if found is None and len(types_of(tenant)) >= MAX_TYPES:
            raise Conflict(f"There are already {MAX_TYPES} pull types; delete one.", field="name")
        declared = found or PullType(
            tenant=tenant, name=name, job_type=stored_name(name, tenant_id=tenant.id), created_at=now
        )
        for column, value in columns.items():
            setattr(declared, column, value)
        declared.updated_at = now
        declared.save()
        return declared, found is None


def withdraw_type(*, tenant: Tenant, name: str) -> None:
    """Delete a pull type. Raises ``NotFound``, and ``Conflict`` while living jobs or unfinished triggers have it."""
    with db.atomic():
        found = PullType.objects.select_for_update().filter(tenant=tenant, name=name).first()
        if found is None:
            raise NotFound("There is no such job type.")
        of_it = {"tenant": tenant, "job_type": found.job_type}
        gone = Workflow.objects.filter(tenant=tenant, deleted_at__isnull=False).values("id")
        if Job.with_hidden.filter(**of_it, deleted_at=None).exclude(workflow_id__in=gone).exists():
            raise Conflict("Jobs or tasks of workflows are of this type; delete them first.")
        if any(Trigger.objects.filter(**of_it, state=state).exists() for state in sorted(UNFINISHED)):
            raise Conflict("Firings of this type have not ended yet; wait for them or cancel them.")
        found.delete()


def hold_type(job_type: str) -> None:
    """Keep a stored job type from being withdrawn until the transaction ends. Raises ``InvalidInput`` when it was."""
    if is_pull(job_type) and not pull.keep_type(job_type):
        raise InvalidInput({"job_type": f"The job type {shown_name(job_type)} was just deleted."})


def representation(declared: PullType) -> dict[str, Any]:
    """A pull type as ``GET /job-types`` shows it."""
    return JobTypeShape.of(declared, pull=True, batch_size=1)


def _parse(name: str, declaration: object) -> dict[str, Any]:
    """The columns of the declaration. Raises ``InvalidInput``."""
    if not registry.NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        right = f"1 to {MAX_NAME_LENGTH} lower-case letters, digits, '_' and '.', beginning with a letter"
        raise InvalidInput({"name": f"Use {right}."})
    declared = Declaration.read(declaration)
    if declared.payload_schema is not None:
        json_schema.check_schema(declared.payload_schema, field="payload_schema")
    return {
        "description": declared.description,
        "payload_schema": declared.payload_schema,
        "timeout": timedelta(seconds=declared.timeout_seconds),
        "max_in_flight": declared.max_in_flight,
    }


def _find(tenant: Tenant, name: str) -> PullType | None:
    if not registry.NAME.fullmatch(name):
        return None
    return PullType.objects.filter(tenant=tenant, name=name).first()


def _check_of(declared: PullType, allowance: Allowance) -> Callable[[Any], None]:
    schema = declared.payload_schema
    fits, outdated = None, ""
    try:
        fits = None if schema is None else json_schema.Check(schema, allowance)
    except InvalidInput as error:
        outdated = f"Its payload_schema is no longer accepted; declare the type again. {error}"

    def check(payload: Any) -> None:
        if outdated:
            raise InvalidInput({"job_type": outdated})
        if not isinstance(payload, dict):
            raise InvalidInput({"payload": "A payload is a JSON object, such as {}."})
        if fits is not None:
            fits(payload, field="payload")

    return check
