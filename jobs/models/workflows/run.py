"""WorkflowRun and TaskRun: what becomes of a version each time it runs (ADR 32)."""

from django.db import models
from django.db.models import Q

from jobs.core.workflows.states import UNFINISHED_TASK_RUNS, RunState, TaskRunState
from jobs.models.fields import TransactionId, choices, new_id, one_of, times_in_range
from jobs.models.firings.trigger import Origin
from jobs.models.workflows.definition import Workflow, WorkflowVersion
from tenants.models import Tenant


class WorkflowRun(models.Model):
    """One run. Its row is the lock under which tasks become ready, start and are skipped, and the run ends.

    ``scheduled_for`` is its own among the runs of the workflow, so that a task's triggers are one an instant, too.
    ``halted``: a task failed, and the workflow halts. ``trigger_id``: the firing that began it, of the schedule or of
    the task that it is; null: a caller did.
    ``cancel_reason``: why it was asked to end (``core.workflows.states.CANCEL_REASONS``).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="runs", db_index=False)
    version = models.ForeignKey(WorkflowVersion, on_delete=models.PROTECT, related_name="+", db_index=False)
    state = models.CharField(max_length=16, choices=choices(RunState))
    input = models.JSONField(null=True)
    scheduled_for = models.DateTimeField()
    halted = models.BooleanField(default=False, db_default=False)
    cancel_requested = models.BooleanField(default=False, db_default=False)
    cancel_reason = models.CharField(max_length=32, blank=True, default="", db_default="")
    origin = models.CharField(
        max_length=16, choices=choices(Origin), default=Origin.RUN_NOW, db_default=Origin.RUN_NOW
    )
    trigger_id = models.UUIDField(null=True)
    #: Of an inner run, which is a task of another run: the start of the task that began it (``replay_count`` of its
    #: trigger), how deep it lies, and the run at the top.
    task_start = models.PositiveIntegerField(null=True)
    depth = models.PositiveSmallIntegerField(default=0, db_default=0)
    root_id = models.UUIDField(null=True)
    #: Since when nothing more of it starts. Null once it has ended.
    paused_at = models.DateTimeField(null=True)
    #: The trace of the caller who asked for it, or for its retry; its tasks' triggers get it (``Trigger.trace``).
    #: No varchar: of a long one Postgres expects wide rows, so few in a new table, and reads it whole.
    trace = models.TextField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("workflow", "scheduled_for"), name="workflowrun_one_an_instant"),
            # A start of a task begins one run.
            models.UniqueConstraint(
                fields=("trigger_id", "task_start"),
                condition=Q(task_start__isnull=False),
                name="workflowrun_one_a_start",
            ),
            models.CheckConstraint(condition=one_of("state", RunState), name="workflowrun_state_known"),
            models.CheckConstraint(
                condition=Q(state="running", finished_at__isnull=True)
                | ~Q(state="running") & Q(finished_at__isnull=False),
                name="workflowrun_ended_is_stamped",
            ),
            models.CheckConstraint(
                condition=times_in_range("scheduled_for", "created_at", "finished_at"),
                name="workflowrun_times_in_range",
            ),
        )
        indexes = (
            # GET /workflow-runs: of all workflows, and of one.
            models.Index(fields=("tenant", "-id"), name="workflowrun_of_tenant"),
            models.Index(fields=("workflow", "-id"), name="workflowrun_of_workflow"),
            # A workflow that runs cannot be deleted.
            models.Index(fields=("workflow",), condition=Q(state="running"), name="workflowrun_running"),
            # store/sql/metrics.sql: ahead — how many go on, and since when the oldest.
            models.Index(fields=("id",), condition=Q(state="running"), name="workflowrun_oldest"),
            # store/sql/workflows.sql: inner — how many runs lie below one.
            models.Index(fields=("root_id",), condition=Q(root_id__isnull=False), name="workflowrun_of_root"),
        )

    def __str__(self) -> str:
        return f"{self.scheduled_for:%Y-%m-%d %H:%M:%S} {self.state}"


class DueCancel(models.Model):
    """A run that is to be cancelled at an instant, unless it has ended by then: its deadline, or at once.

    A table of its own, so that dispatch asks for a cancel without the run's lock, for which it must not wait.
    """

    run_id = models.UUIDField(primary_key=True)
    tenant_id = models.BigIntegerField()
    at = models.DateTimeField()
    reason = models.CharField(max_length=32)

    class Meta:
        indexes = (
            # store/sql/workflows.sql: due_cancels.
            models.Index(fields=("at",), name="duecancel_at"),
        )

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.reason}"


class TaskRun(models.Model):
    """One task in one run, or one item of a map. Its trigger, once it is started, has the same id: there can be no
    second one. A map has none of its own.

    ``undecided``: incoming edges of which the task before has not ended; ``met``: those that are met. Of a map that has
    started: items that have not ended, and the first that was not let go yet. ``exempt``: it handles a failure, or
    comes after a task that does, so it starts in a run that halts. ``unsettled``: the transaction that ended it, until
    what follows from its end is done, in that same transaction.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: Without a constraint: it would be checked twice for each task that ends (migration 0022).
    run = models.ForeignKey(
        WorkflowRun, on_delete=models.PROTECT, related_name="task_runs", db_index=False, db_constraint=False
    )
    task = models.PositiveIntegerField()
    #: Of an item of a map: its place in the list, from 0, and what stands there.
    item = models.PositiveIntegerField(null=True)
    value = models.JSONField(null=True)
    #: Of a map: how many items it has.
    item_count = models.PositiveIntegerField(null=True)
    state = models.CharField(max_length=16, choices=choices(TaskRunState))
    reason = models.CharField(max_length=32, blank=True, default="", db_default="")
    undecided = models.PositiveIntegerField()
    met = models.PositiveIntegerField(default=0, db_default=0)
    exempt = models.BooleanField(default=False, db_default=False)
    unsettled = TransactionId(null=True, editable=False)
    ready_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            # carillon_settle_run: the task runs of a run, those after one that ended, the next items of a map.
            models.UniqueConstraint(
                fields=("run", "task", "item"), nulls_distinct=False, name="taskrun_one_an_item"
            ),
            models.CheckConstraint(condition=one_of("state", TaskRunState), name="taskrun_state_known"),
        )
        indexes = (
            # carillon_settle_tasks, carillon_settle_run: what this transaction ended.
            models.Index(
                fields=("unsettled", "run"), condition=Q(unsettled__isnull=False), name="taskrun_unsettled"
            ),
            # carillon_settle_run: what may start, how many are started, whether the run is over.
            models.Index(
                fields=("run", "state"),
                condition=Q(state__in=[str(state) for state in UNFINISHED_TASK_RUNS]),
                name="taskrun_unfinished",
            ),
        )

    def __str__(self) -> str:
        return f"task {self.task} {self.state}"
