"""WorkflowRun and TaskRun: the state of a version each time it is run (ADR 32)."""

from django.db import models
from django.db.models import Q

from jobs.core.workflows.states import UNFINISHED_TASK_RUNS, RunState, TaskRunState
from jobs.models.fields import TransactionId, choices, new_id, one_of, times_in_range
from jobs.models.firings.trigger import Origin
from jobs.models.workflows.definition import Workflow, WorkflowVersion
from tenants.models import Tenant


class WorkflowRun(models.Model):
    """One run. Its row is the lock under which tasks become ready, start and are skipped, and the run ends.

    ``scheduled_for`` is unique among the runs of the workflow, so a task has at most one trigger for an instant, too.
    ``halted``: a task failed, and the workflow halts. ``trigger_id``: the trigger that began it, of the workflow's
    schedule or of the task that this run is; null: a caller began it.
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
    #: For an inner run, which is a task of another run: the start of the task that began it (``replay_count`` of its
    #: trigger), how deep it lies, and the run at the top.
    task_start = models.PositiveIntegerField(null=True)
    depth = models.PositiveSmallIntegerField(default=0, db_default=0)
    root_id = models.UUIDField(null=True)
    #: Since then no more of its tasks start. Null once it has ended.
    paused_at = models.DateTimeField(null=True)
    #: The trace of the caller that asked for it, or for its retry; its tasks' triggers get it (``Trigger.trace``).
    #: Not a varchar: for a long varchar Postgres expects wide rows, so few rows in a new table, and reads it whole.
    trace = models.TextField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("workflow", "scheduled_for"), name="workflowrun_one_an_instant"),
            # One start of a task begins one run.
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
            # store/sql/metrics.sql: ahead — how many runs are unfinished, and since when the oldest is.
            models.Index(fields=("id",), condition=Q(state="running"), name="workflowrun_oldest"),
            # store/sql/workflows.sql: inner — how many runs lie below one.
            models.Index(fields=("root_id",), condition=Q(root_id__isnull=False), name="workflowrun_of_root"),
        )

    def __str__(self) -> str:
        return f"{self.scheduled_for:%Y-%m-%d %H:%M:%S} {self.state}"


class DueCancel(models.Model):
    """A run that must be cancelled at an instant, unless it has ended by then: at its deadline, or at once.

    A table of its own, so that dispatch can ask for a cancel without the run's lock. Dispatch must not wait for that
    lock.
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
    """One task in one run, or one item of a map. Once it is started, its trigger has the same id, so there can be no
    second trigger. A map has no trigger of its own.

    ``undecided``: the number of incoming edges whose first task has not ended; ``met``: the number of edges that are
    met. For a map that has started: the number of items that have not ended, and the first item that was not let go
    yet. ``exempt``: it handles a failure, or comes after a task that does, so it starts even in a run that halts.
    ``unsettled``: the transaction that ended it, until the same transaction has settled the consequences of that end.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: Without a constraint: Postgres would check it twice for each task that ends (migration 0022).
    run = models.ForeignKey(
        WorkflowRun, on_delete=models.PROTECT, related_name="task_runs", db_index=False, db_constraint=False
    )
    task = models.PositiveIntegerField()
    #: For an item of a map: its index in the list, from 0, and the value at that index.
    item = models.PositiveIntegerField(null=True)
    value = models.JSONField(null=True)
    #: For a map: how many items it has.
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
            # carillon_settle_tasks, carillon_settle_run: the task runs that this transaction ended.
            models.Index(
                fields=("unsettled", "run"), condition=Q(unsettled__isnull=False), name="taskrun_unsettled"
            ),
            # carillon_settle_run: which task runs may start, how many are started, whether the run is over.
            models.Index(
                fields=("run", "state"),
                condition=Q(state__in=[str(state) for state in UNFINISHED_TASK_RUNS]),
                name="taskrun_unfinished",
            ),
        )

    def __str__(self) -> str:
        return f"task {self.task} {self.state}"
