"""Create up to a thousand jobs at once: one transaction, a constant number of statements."""

from collections.abc import Sequence

from jobs.actions.drafts import Drafts
from jobs.actions.jobs import name_taken, over_quota, room_for
from jobs.actions.pull.types import hold_type
from jobs.core.errors import CarillonError, Conflict, InvalidInput, QuotaExceeded
from jobs.models import Job
from jobs.store import db
from jobs.store import jobs as job_store
from jobs.wakeups import wake_beats
from tenants.clock import database_now
from tenants.models import Tenant

Outcome = Job | CarillonError


def create_jobs(
    *, tenant: Tenant, definitions: Sequence[object], all_or_nothing: bool = False
) -> list[Outcome]:
    """Create the jobs of ``definitions``; returns one outcome for each, in their order: the job or its refusal.

    Each is checked as ``create_job`` checks it, against those before it too. With ``all_or_nothing`` a refusal of one
    refuses all: raises ``InvalidInput`` or ``Conflict`` with paths such as ``jobs[3].name``, or ``QuotaExceeded``.
    """
    now = database_now()
    asked = Drafts(tenant=tenant, now=now)
    outcomes: list[Outcome] = []
    for definition in definitions:
        try:
            outcomes.append(asked.draft(definition))
        except InvalidInput as error:
            outcomes.append(error)
    with db.atomic():
        _hold_types(outcomes)
        _refuse_taken_names(tenant, outcomes)
        _refuse_beyond_quota(tenant, outcomes)
        _insert(outcomes)
        if all_or_nothing:
            _refuse_all(outcomes)
        firings = [job.next_fire_at for job in drafts(outcomes) if job.next_fire_at is not None]
        if firings:
            wake_beats(due_in=min(firings) - now)
    return outcomes


def drafts(outcomes: Sequence[Outcome]) -> list[Job]:
    """The jobs that have not been refused."""
    return [outcome for outcome in outcomes if isinstance(outcome, Job)]


def _hold_types(outcomes: list[Outcome]) -> None:
    for job_type in sorted({job.job_type for job in drafts(outcomes)}):
        try:
            hold_type(job_type)
        except InvalidInput as error:
            for place, outcome in enumerate(outcomes):
                if isinstance(outcome, Job) and outcome.job_type == job_type:
                    outcomes[place] = error


def _refuse_taken_names(tenant: Tenant, outcomes: list[Outcome]) -> None:
    names = [job.name for job in drafts(outcomes)]
    living = Job.objects.filter(tenant=tenant, deleted_at=None, name__in=names)
    taken = set(living.values_list("name", flat=True))
    for place, outcome in enumerate(outcomes):
        if isinstance(outcome, Job):
            if outcome.name in taken:
                outcomes[place] = name_taken(outcome.name)
            taken.add(outcome.name)


def _refuse_beyond_quota(tenant: Tenant, outcomes: list[Outcome]) -> None:
    wanted = len(drafts(outcomes))
    room = room_for(tenant, wanted)
    if room < wanted:
        refusal = over_quota(tenant)
        beyond = drafts(outcomes)[room:]
        _replace(outcomes, {id(job): refusal for job in beyond})


def _insert(outcomes: list[Outcome]) -> None:
    """Write the jobs. A name that was taken since the check is refused like any other."""
    wanted = drafts(outcomes)
    written = job_store.insert(wanted)
    _replace(outcomes, {id(job): name_taken(job.name) for job in wanted if job.id not in written})


def _replace(outcomes: list[Outcome], refusals: dict[int, CarillonError]) -> None:
    outcomes[:] = [refusals.get(id(outcome), outcome) for outcome in outcomes]


def _refuse_all(outcomes: Sequence[Outcome]) -> None:
    refused = [
        (f"jobs[{place}]", outcome) for place, outcome in enumerate(outcomes) if not isinstance(outcome, Job)
    ]
    faults: dict[str, Sequence[str]] = {}
    for path, error in refused:
        if isinstance(error, InvalidInput):
            faults |= error.under(path).errors
    if faults:
        raise InvalidInput(faults)
    for path, error in refused:
        if isinstance(error, QuotaExceeded):
            raise error
        raise Conflict(str(error), field=f"{path}.name")
