"""The registry of job types: which handler a job's ``job_type`` names, and which payloads it accepts.

Filled at import time by the decorator ``job_type``; ``load`` imports the built-in types and a team's own
modules, once, at the start of every process. Keeps true: a name means one handler, and the handler's model accepts
every payload that ``validate_payload`` accepted. A module that cannot be imported stops the process at its start; the
error names the module.
"""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import pydantic

from jobs.conf import engine_settings
from jobs.core.errors import CarillonError, InvalidInput, refusal

NAME = re.compile(r"[a-z][a-z0-9_.]{0,62}")
BUILT_IN = tuple(
    f"jobs.handlers.builtin.{name}"
    for name in ("webhook", "celery_task", "message", "noop", "notice", "wait", "workflow")
)
#: Types with this prefix are Carillon's own: a caller's job cannot have such a type.
SYSTEM_PREFIX = "carillon."

Handler = Callable[..., Any]


class RegistrationError(CarillonError):
    """A job type declared wrongly, or a handler module that cannot be imported."""


class UnknownJobType(InvalidInput):
    """A job names a type that no loaded module registers, or one that is ``switched_off``."""

    def __init__(self, name: str, *, known: Iterable[str], switched_off: bool = False) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(str(name), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        wrong = f"There is no job type {name!r:.80}.{hint}"
        if switched_off:
            wrong = f"The job type {name!r} is switched off here."
        super().__init__({"job_type": f"{wrong} Known: {', '.join(names) or 'none'}."})


@dataclass(frozen=True)
class JobType:
    """A registered handler and how it is run: see ``job_type``."""

    name: str
    handler: Handler
    payload: type[pydantic.BaseModel] | None
    timeout: timedelta
    batch_size: int
    max_in_flight: int | None
    description: str
    is_async: bool
    target: Callable[[dict[str, Any]], str] | None = None
    secrets: Callable[[dict[str, Any]], dict[str, list[str]]] | None = None
    pull: bool = False
    offered: Callable[[], bool] = lambda: True
    max_timeout: Callable[[], timedelta] | None = None
    sends_to: Callable[[dict[str, Any]], str] | None = None

    @property
    def is_system(self) -> bool:
        return self.name.startswith(SYSTEM_PREFIX)

    @property
    def is_switched_off(self) -> bool:
        """A setting switches the type off for all tenants: no trigger of it runs."""
        return self.name in engine_settings().disabled_types or not self.offered()

    @property
    def is_public(self) -> bool:
        """Whether a caller's jobs may be of this type."""
        return not (self.is_system or self.is_switched_off)

    def bounded(self, timeout: timedelta) -> timedelta:
        """How long an attempt of a job with this ``timeout`` may take. The job may be older than the ceiling."""
        return min(timeout, self.max_timeout()) if self.max_timeout else timeout

    @property
    def queue(self) -> str:
        """Name of its Celery queue, and of its Celery task."""
        return f"jobs.{self.name}"

    def parse(self, payload: dict[str, Any]) -> Any:
        """The argument for the handler: an instance of its model, or the dict itself where it declared none.

        Raises ``InvalidInput`` with paths such as ``payload.url``.
        """
        if self.payload is None:
            return payload
        try:
            return self.payload.model_validate(payload)
        except pydantic.ValidationError as error:
            findings: Any = error.errors(include_url=False, include_input=False)
        # Not within ``except``: jobs/shapes/base.py says why.
        raise refusal(findings, known=self.payload.model_fields).under("payload")


_types: dict[str, JobType] = {}


def job_type(
    name: str,
    *,
    timeout_seconds: float = 60,
    batch_size: int = 1,
    payload: type[pydantic.BaseModel] | None = None,
    max_in_flight: int | None = None,
    target: Callable[[dict[str, Any]], str] | None = None,
    secrets: Callable[[dict[str, Any]], dict[str, list[str]]] | None = None,
    pull: bool = False,
    offered: Callable[[], bool] = lambda: True,
    max_timeout: Callable[[], timedelta] | None = None,
    sends_to: Callable[[dict[str, Any]], str] | None = None,
) -> Callable[[Handler], Handler]:
    """Register the decorated function, plain or ``async``, as the handler of jobs whose ``job_type`` is
    ``name``.

    ``timeout_seconds`` bounds one attempt (a job may set its own). ``batch_size`` triggers may travel in one
    message: raise it for handlers of a few milliseconds. ``max_in_flight`` bounds how many run at once over
    all workers. ``payload`` is a pydantic model that a job's payload must fit, checked when the job is
    created; without one the handler receives the plain dict. ``target`` names the host that the handler calls
    with a valid payload (``host`` or ``host:port``, at most 255 characters), for the rate limits of targets.
    ``secrets`` names the tenant's secrets that a valid payload refers to, by the field that does
    (``{"payload.url": ["token"]}``): the handler finds their values in ``ctx.secrets``.
    ``pull``: tenants' pull workers may claim triggers of the type too, each its own tenant's (docs/pull-workers.md). A
    type with ``secrets`` cannot have it: no pull worker is told their values.
    ``offered`` says whether jobs may be of the type; where they may not, the triggers of older jobs are buried.
    ``max_timeout`` is the longest time an attempt may take, even if its job says more. Both are called each time they
    are needed, so a setting may decide.
    ``sends_to`` names the queue of the broker that a valid payload is written to. A job may name only a queue that its
    tenant may write to, and the handler finds the granted queues in ``ctx.queues``.
    The first paragraph of the docstring becomes the
    type's description. Raises ``RegistrationError``.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RegistrationError(
            f"{name!r} is not a name for a job type; use 1 to 63 lower-case letters, digits, '_' and '.', "
            "beginning with a letter."
        )
    if timeout_seconds <= 0 or batch_size < 1 or (max_in_flight is not None and max_in_flight < 1):
        raise RegistrationError(
            f"Job type {name!r}: timeout_seconds must be above 0, batch_size and max_in_flight at least 1."
        )

    if pull and (secrets is not None or name.startswith(SYSTEM_PREFIX)):
        raise RegistrationError(
            f"Job type {name!r}: pull workers get no secrets and no types of Carillon itself; leave out pull."
        )

    def register(handler: Handler) -> Handler:
        known = _types.get(name)
        if known is not None and _origin(known.handler) != _origin(handler):
            raise RegistrationError(
                f"Job type {name!r} is registered twice, by {_origin(known.handler)} and by "
                f"{_origin(handler)}; rename one."
            )
        _types[name] = JobType(
            name=name,
            handler=handler,
            payload=payload,
            timeout=timedelta(seconds=timeout_seconds),
            batch_size=batch_size,
            max_in_flight=max_in_flight,
            description=" ".join((inspect.getdoc(handler) or "").split("\n\n")[0].split()),
            is_async=inspect.iscoroutinefunction(handler),
            target=target,
            secrets=secrets,
            pull=pull,
            offered=offered,
            max_timeout=max_timeout,
            sends_to=sends_to,
        )
        return handler

    return register


def get(name: str) -> JobType:
    """The job type of that name. Raises ``UnknownJobType``, naming the known ones and the closest."""
    try:
        return _types[name]
    except (KeyError, TypeError):
        raise UnknownJobType(name, known=_types) from None


def all_types() -> list[JobType]:
    """Every registered type, by name."""
    return [_types[name] for name in sorted(_types)]


def public_types() -> list[JobType]:
    """Every registered type that a caller's jobs may be of, by name."""
    return [job_type for job_type in all_types() if job_type.is_public]


def load(modules: Iterable[str] = (), *, disabled: Iterable[str] = ()) -> None:
    """Import the built-in job types and a team's ``modules``. Repeatable; raises ``RegistrationError``.

    ``disabled`` are types that the settings switch off. A name without a type raises: the type meant would stay on.
    """
    for module in BUILT_IN:
        import_module(module)
    for module in modules:
        try:
            import_module(module)
        except Exception as error:
            raise RegistrationError(
                f"CARILLON_HANDLER_MODULES names {module!r}, which cannot be imported: "
                f"{type(error).__name__}: {error}"
            ) from error
    if unknown := sorted(set(disabled) - _types.keys()):
        raise RegistrationError(
            f"CARILLON_DISABLED_TYPES names {', '.join(unknown)}; the job types are {', '.join(sorted(_types))}."
        )


def validate_payload(name: str, payload: Mapping[str, Any]) -> None:
    """Raise ``InvalidInput`` (paths such as ``payload.url``) unless the type ``name`` accepts ``payload``."""
    kind = get(name)
    if not isinstance(payload, dict):
        raise InvalidInput({"payload": "A payload is a JSON object, such as {}."})
    kind.parse(payload)


def _origin(handler: Handler) -> str:
    return f"{handler.__module__}.{handler.__qualname__}"
