"""Trigger: one expected firing of a job, and the transactional outbox of its dispatch (DESIGN §3, §5)."""

from django.db import models
from django.db.models import Case, Q, Value, When

from jobs.core import states
from jobs.core.states import TriggerState
from jobs.models.fields import Clock, choices, new_id
from jobs.models.job import PRIORITIES, Job
from jobs.telemetry.traces.w3c import MAX_KEPT_LENGTH
from tenants.models import Tenant

DISPATCHABLE = Q(phase__in=("pending", "retrying"), held=False)
#: The dead letters that are not dismissed, as their indexes select them.
DEAD_LETTERS = Q(phase=states.PHASES[TriggerState.DEAD], dismissed_at=None)


def _phase_of_state() -> Case:
    by_phase: dict[str, list[str]] = {}
    for state, phase in states.PHASES.items():
        by_phase.setdefault(phase, []).append(state.value)
    return Case(*(When(state__in=of_phase, then=Value(phase)) for phase, of_phase in by_phase.items()))


class Origin(models.TextChoices):
    """How a trigger came to be. Only scheduled firings can be missed or skipped for overlap."""

    SCHEDULE = "schedule"
    #: A missed firing that its policy lets run late; never missed or skipped again.
    CATCHUP = "catchup"
    RUN_NOW = "run_now"
    #: A run now that was asked to ignore overlap: it starts beside other triggers of its job.
    RUN_BESIDE = "run_beside", "Run now, beside others"
    BACKFILL = "backfill"
    #: A task of a workflow run, as soon as it was ready.
    WORKFLOW = "workflow"


class Trigger(models.Model):
    """A row of the ledger. Written by ``jobs.store`` alone; read by anyone.

    ``attempt_count`` counts every attempt ever made; the retry budget counts from ``budget_start``, which a replay
    moves. ``held`` hides a trigger from the dispatcher, so that it costs nothing there: its job is paused, or the
    trigger is ``parked``. A parked trigger waits until another trigger of its job, or of its concurrency key, has
    ended. Or it waits until ``parked_until``, when its target may be called again; ``parked_for`` may let it go sooner.
    ``concurrency_key`` is the job's key at the time of the dispatch, for counting. ``cancel_reason`` is why the trigger
    was asked to stop. ``suspect``: a process that had claimed it died, perhaps because of it; since then it travels
    alone. ``dismissed_at``: ``dismissed_by`` said, with a note, that the dead letter needs no more attention. ``phase``
    (`states.PHASES`) is the part of the state that indexes know: statements that search by state name it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: One foreign key (migration 0002) to the job's id and tenant keeps both: a trigger's tenant is its job's tenant.
    job = models.ForeignKey(
        Job, on_delete=models.PROTECT, related_name="triggers", db_index=False, db_constraint=False
    )
    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    job_type = models.CharField(max_length=63)
    job_version = models.PositiveIntegerField()
    origin = models.CharField(max_length=16, choices=Origin.choices, default=Origin.SCHEDULE)
    scheduled_for = models.DateTimeField()
    due_at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=choices(TriggerState), default=TriggerState.PENDING)
    phase = models.GeneratedField(
        expression=_phase_of_state(), output_field=models.CharField(max_length=16), db_persist=True
    )
    reason = models.CharField(max_length=32, blank=True)
    held = models.BooleanField(default=False)
    parked = models.BooleanField(default=False, db_default=False)
    parked_until = models.DateTimeField(null=True, blank=True)
    #: While it is parked: the target that must let it go first, because operators paused or capped that target.
    parked_for = models.CharField(max_length=255, blank=True, default="", db_default="")
    concurrency_key = models.CharField(max_length=200, blank=True, default="", db_default="")
    priority = models.SmallIntegerField(choices=PRIORITIES)
    idempotency_key = models.CharField(max_length=120)
    #: The trace of the caller that asked for it, as ``TraceContext.kept`` writes it; null: none was named.
    trace = models.CharField(max_length=MAX_KEPT_LENGTH, null=True, blank=True)
    #: The payload of a run now that was given its own; null: the job's payload.
    payload = models.JSONField(null=True, blank=True)
    fence = models.PositiveIntegerField(default=0)
    attempt_count = models.PositiveIntegerField(default=0)
    budget_start = models.PositiveIntegerField(default=0)
    crash_count = models.PositiveIntegerField(default=0)
    suspect = models.BooleanField(default=False, db_default=False)
    replay_count = models.PositiveIntegerField(default=0)
    worker = models.CharField(max_length=200, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    cancel_requested = models.BooleanField(default=False)
    cancel_reason = models.CharField(max_length=32, blank=True, default="", db_default="")
    progress = models.JSONField(null=True, blank=True)
    checkpoint = models.JSONField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField()
    #: When it became dispatchable, so that dispatchers learn of it; null where its dispatcher was told in another way.
    announced_at = models.DateTimeField(null=True, blank=True, db_default=Clock())
    queued_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    dismissed_at = models.DateTimeField(null=True, blank=True)
    dismissed_by = models.CharField(max_length=200, blank=True, default="", db_default="")
    dismissed_note = models.CharField(max_length=500, blank=True, default="", db_default="")
    #: For a task's trigger: the workflow run. The task run has this trigger's id.
    workflow_run_id = models.UUIDField(null=True, editable=False)

    class Meta:
        #: Migration 0002 holds the other rules between its columns, in a form that costs the server little.
        constraints = (
            # DESIGN §2.2: no firing is doubled, even if two leaders run. Also serves a job's history.
            models.UniqueConstraint(fields=("job", "scheduled_for"), name="trigger_one_per_firing"),
        )
        indexes = (
            # store/sql/dispatch.sql: sweep, candidates, floors — each lane (tenant, type, priority), oldest due first.
            models.Index(
                fields=("tenant", "job_type", "priority", "due_at"),
                condition=DISPATCHABLE,
                name="trigger_lane",
            ),
            # store/sql/dispatch.sql: in_flight_since, in_flight_between — triggers that were queued a moment ago.
            models.Index(fields=("queued_at",), condition=Q(phase="in_flight"), name="trigger_queued_at"),
            # store/sql/dispatch.sql: in_flight_of_tenants; store/sql/pull.sql and reap.sql.
            models.Index(
                fields=("tenant", "job_type"),
                condition=Q(phase="in_flight"),
                name="trigger_in_flight",
            ),
            # store/sql/dispatch.sql: facts, skip_missed; store/sql/parking.sql: behind; jobs.actions — the unfinished
            # triggers of one job; those in sight apart from those parked, and of each origin the oldest first.
            models.Index(
                fields=("job", "phase", "held", "origin", "scheduled_for"),
                condition=Q(phase__in=("pending", "retrying", "in_flight")),
                name="trigger_unfinished_by_job",
            ),
            # store/sql/dispatch.sql: facts; store/sql/parking.sql: release — triggers in flight of a concurrency key.
            models.Index(
                fields=("tenant", "concurrency_key"),
                condition=Q(phase="in_flight") & ~Q(concurrency_key=""),
                name="trigger_key_in_flight",
            ),
            # store/sql/dispatch.sql: news — triggers that became dispatchable a moment ago.
            models.Index(
                fields=("announced_at",),
                condition=DISPATCHABLE & Q(announced_at__isnull=False),
                name="trigger_announced",
            ),
            # store/sql/dispatch.sql: release; jobs with a trigger that waits for the end of another, oldest first.
            models.Index(
                fields=("job", "scheduled_for"),
                condition=Q(parked=True, parked_until__isnull=True),
                name="trigger_parked",
            ),
            # store/sql/dispatch.sql: unpark; triggers that wait for their target, soonest first.
            models.Index(
                fields=("parked_until",), condition=Q(parked_until__isnull=False), name="trigger_parked_until"
            ),
            # store/sql/targets.sql: waiting, show; triggers that wait until their target lets them go, in the order of
            # dispatch.
            models.Index(
                fields=("parked_for", "tenant", "priority", "due_at"),
                condition=Q(parked=True) & ~Q(parked_for=""),
                name="trigger_parked_lane",
            ),
            # store/sql/catchup.sql: waiting; catch-up work that dispatch has not taken yet.
            models.Index(
                fields=("tenant",),
                condition=Q(origin__in=("catchup", "backfill"), phase="pending"),
                name="trigger_catchup_waiting",
            ),
            # GET /triggers and the admin's list by tenant: newest first, by cursor. The condition always holds; it only
            # keeps the planner from skip-scanning this index for statements that look triggers up by id.
            models.Index(fields=("tenant", "-id"), condition=Q(tenant__gt=0), name="trigger_of_tenant"),
            # GET /dead-letters and the admin's dead letters: newest first, by cursor.
            models.Index(fields=("tenant", "-id"), condition=DEAD_LETTERS, name="trigger_dead_letter"),
            # The console's dead letters: by the time of their death, of all tenants or of one.
            models.Index(fields=("finished_at",), condition=DEAD_LETTERS, name="trigger_letter_died"),
            models.Index(
                fields=("tenant", "finished_at"), condition=DEAD_LETTERS, name="trigger_letter_of_tenant"
            ),
            # The console's lists of the retrying and of the held triggers, the first due first.
            models.Index(fields=("due_at",), condition=Q(phase="retrying"), name="trigger_retrying"),
            models.Index(
                fields=("due_at",),
                condition=Q(held=True, phase__in=("pending", "retrying")),
                name="trigger_held",
            ),
        )

    def __str__(self) -> str:
        return f"{self.scheduled_for:%Y-%m-%d %H:%M:%S} {self.state}"
