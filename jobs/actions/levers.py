"""Levers of operators over all tenants: stop dispatch, pause a job type, cap its triggers in flight (DESIGN §8).

The API, the admin and the commands write through these functions alone. Each may be repeated: it says what must hold,
and changes nothing if that holds already.
"""

from typing import Any

from jobs.conf import engine_settings
from jobs.core.errors import NotFound
from jobs.handlers import registry
from jobs.models import Installation, PullType
from jobs.shapes.installation import InstallationChanges, InstallationShape, JobTypeChanges, JobTypeLevers
from jobs.store import db
from jobs.store.dispatch import levers
from jobs.store.trail import present_name
from jobs.wakeups import wake_beats


def installation() -> Installation:
    """The installation as it is now."""
    return Installation.objects.filter(id=1).first() or Installation()


def change_installation(*, changes: object) -> Installation:
    """Stop dispatch for all tenants, or let it go on, as JSON says; returns the installation as it is then.

    While it is stopped, nothing is dispatched and no queued trigger starts. Attempts that run go on, and so does
    materializing: missed firings follow their job's misfire policy. Raises ``InvalidInput``.
    """
    wanted = InstallationChanges.read(changes)
    if wanted.stops:
        levers.stop_dispatch(by=present_name(), reason=wanted.reason or "")
    elif levers.start_dispatch():
        wake_beats()
    return installation()


def types() -> list[Any]:
    """The registered job types, and all others on which a lever is set, by name."""
    return levers.types((kind.name for kind in registry.all_types()), others=True)


def find_type(name: str) -> Any:
    """The levers of one job type, by its stored name. Raises ``NotFound``."""
    if name not in _known() and not PullType.objects.filter(job_type=name).exists():
        raise NotFound("There is no such job type.")
    return rows_of(name)[0]


def rows_of(name: str) -> list[Any]:
    """The levers of one job type, known or not."""
    return levers.types([name])


def change_type(*, name: str, changes: object) -> Any:
    """Pause or resume a job type for all tenants, or cap its triggers in flight, as JSON says.

    Returns its levers then. No dispatch of a paused type follows the return; attempts that run go on. Raises
    ``InvalidInput``, ``NotFound``.
    """
    wanted = JobTypeChanges.read(changes)
    find_type(name)
    with db.atomic():
        levers.know_type(name, window=engine_settings().queue_window_initial)
        if wanted.paused:
            levers.pause_type(name, by=present_name(), reason=wanted.reason or "")
        elif wanted.paused is not None:
            levers.resume_type(name)
        if wanted.caps:
            levers.cap_type(name, wanted.max_in_flight)
        wake_beats()
        return rows_of(name)[0]


def installation_representation(present: Installation) -> dict[str, Any]:
    """The installation as the API shows it, JSON types only."""
    return InstallationShape.of(present, dispatch="stopped" if present.stopped_at else "running")


def type_representations(rows: list[Any]) -> list[dict[str, Any]]:
    """Rows of ``types`` as the API shows them, JSON types only."""
    strange = [row.job_type for row in rows if row.job_type not in _known()]
    caps = dict(PullType.objects.filter(job_type__in=strange).values_list("job_type", "max_in_flight"))
    caps |= {kind.name: kind.max_in_flight for kind in registry.all_types()}
    return [
        JobTypeLevers.of(row, paused=row.paused_at is not None, own_max_in_flight=caps.get(row.job_type))
        for row in rows
    ]


def _known() -> set[str]:
    return {kind.name for kind in registry.all_types()}
