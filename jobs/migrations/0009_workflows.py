"""Workflows (ADR 32): their tables, the functions by which the end of one task starts the next, and hidden jobs.

What starts, is skipped and ends a run is decided at the commit of whatever ended a task, under the run's row. A plain
trigger costs the evaluation of two WHEN clauses, of which the first term is false.
"""

import django.db.models.deletion
from django.db import migrations, models

from jobs.models.fields import TransactionId, new_id, times_in_range

# The trigger's row is locked by the statement that ended it, and its task run is written by nobody else while it is
# started: so this waits for nothing.
_NOTE = """
CREATE FUNCTION carillon_note_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- transition of task runs: started -> succeeded, failed, cancelled
    UPDATE jobs_taskrun SET
        state = CASE NEW.state WHEN 'succeeded' THEN 'succeeded' WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END,
        reason = NEW.reason, finished_at = NEW.finished_at, unsettled = pg_current_xact_id()
    WHERE id = NEW.id AND state = 'started';
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_trigger_note_task AFTER UPDATE OF state ON jobs_trigger FOR EACH ROW
    WHEN (NEW.workflow_run_id IS NOT NULL AND NEW.state IN ('succeeded', 'dead', 'skipped', 'cancelled')
          AND OLD.state NOT IN ('succeeded', 'dead', 'skipped', 'cancelled'))
    EXECUTE FUNCTION carillon_note_task();
"""
# At the commit, and of all runs that the transaction touched in the order of their ids: two transactions that end tasks
# of the same runs cannot wait for each other. The first call settles all of them.
_SETTLE = """
CREATE FUNCTION carillon_settle_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    due uuid;
BEGIN
    FOR due IN SELECT DISTINCT run_id FROM jobs_taskrun WHERE unsettled = pg_current_xact_id() ORDER BY run_id LOOP
        PERFORM carillon_settle_run(due);
    END LOOP;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_trigger_settle_tasks AFTER UPDATE OF state ON jobs_trigger
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.workflow_run_id IS NOT NULL AND NEW.state IN ('succeeded', 'dead', 'skipped', 'cancelled')
          AND OLD.state NOT IN ('succeeded', 'dead', 'skipped', 'cancelled'))
    EXECUTE FUNCTION carillon_settle_tasks();
"""
# What follows from the ends of task runs: their edges are decided, tasks behind them become ready or are skipped, which
# decides further edges; then what may start gets its trigger, and a run with nothing left ends. Only under the run's row
# does a task run leave waiting or ready, so a row that waits is locked by no other transaction.
_SETTLE_RUN = """
CREATE FUNCTION carillon_settle_run(due uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    run record;
    ended integer[];
    states text[];
    exempts boolean[];
BEGIN
    SELECT r.id, r.tenant_id, r.version_id, r.scheduled_for, r.halted, r.paused_at, v.halts, v.max_parallel INTO run
    FROM jobs_workflowrun r JOIN jobs_workflowversion v ON v.id = r.version_id
    WHERE r.id = due FOR NO KEY UPDATE OF r;
    LOOP
        WITH settled AS (
            UPDATE jobs_taskrun SET unsettled = NULL WHERE run_id = due AND unsettled = pg_current_xact_id()
            RETURNING task, state, exempt
        )
        SELECT array_agg(task), array_agg(state), array_agg(exempt) INTO ended, states, exempts FROM settled;
        EXIT WHEN ended IS NULL;
        IF run.halts AND NOT run.halted AND states && ARRAY['failed', 'cancelled'] THEN
            UPDATE jobs_workflowrun SET halted = true WHERE id = due;
            run.halted := true;
        END IF;
        -- transition of task runs: waiting -> ready, skipped
        UPDATE jobs_taskrun c SET
            undecided = n.undecided, met = n.met, exempt = n.exempt, state = n.state,
            reason = CASE WHEN n.state <> 'skipped' THEN '' WHEN n.fits THEN 'halted' ELSE 'upstream' END,
            ready_at = CASE n.state WHEN 'ready' THEN carillon_clock() END,
            finished_at = CASE n.state WHEN 'skipped' THEN carillon_clock() END,
            unsettled = CASE n.state WHEN 'skipped' THEN pg_current_xact_id() END
        FROM (
            SELECT f.id, f.undecided, f.met, f.exempt, f.fits, CASE
                       WHEN f.fits AND (f.exempt OR NOT run.halted) THEN 'ready'
                       WHEN f.undecided = 0 OR f.needs_all AND f.undecided + f.met < f.incoming THEN 'skipped'
                       ELSE 'waiting' END AS state
            FROM (
                SELECT w.*, CASE WHEN w.needs_all THEN w.met = w.incoming ELSE w.met > 0 END AS fits
                FROM (
                    SELECT c.id, t.needs_all, t.incoming, c.undecided - count(*) AS undecided,
                           c.met + count(*) FILTER (WHERE e.is_met) AS met,
                           c.exempt OR bool_or(e.is_met AND (e.condition <> 'on_success' OR e.exempt)) AS exempt
                    FROM (
                        SELECT edge.after, edge.condition, d.exempt, CASE edge.condition
                                   WHEN 'on_success' THEN d.state = 'succeeded'
                                   WHEN 'on_failure' THEN d.state IN ('failed', 'cancelled')
                                   ELSE true END AS is_met
                        FROM unnest(ended, states, exempts) AS d(task, state, exempt)
                            JOIN jobs_workflowedge edge ON edge.version_id = run.version_id AND edge.before = d.task
                    ) e
                        JOIN jobs_taskrun c ON c.run_id = due AND c.task = e.after AND c.state = 'waiting'
                        JOIN jobs_workflowtask t ON t.version_id = run.version_id AND t.number = c.task
                    GROUP BY c.id, t.needs_all, t.incoming) w) f) n
        WHERE c.id = n.id AND c.state = 'waiting';
    END LOOP;
    -- transition of task runs: ready -> started
    WITH chosen AS (
        SELECT id FROM jobs_taskrun WHERE run_id = due AND state = 'ready' AND run.paused_at IS NULL
        ORDER BY ready_at, task
        LIMIT CASE WHEN run.max_parallel IS NOT NULL THEN greatest(0, run.max_parallel - (
            SELECT count(*) FROM jobs_taskrun WHERE run_id = due AND state = 'started')) END
    ), started AS (
        UPDATE jobs_taskrun SET state = 'started' WHERE id IN (SELECT id FROM chosen) AND state = 'ready'
        RETURNING id, task
    )
    INSERT INTO jobs_trigger AS known (
        id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason, held, priority,
        idempotency_key, fence, attempt_count, budget_start, crash_count, replay_count, worker, cancel_requested,
        created_at, announced_at, workflow_run_id)
    SELECT s.id, j.id, run.tenant_id, j.job_type, j.version, 'workflow', run.scheduled_for, carillon_clock(), 'pending',
           '', false, j.priority, 'workflow-run:' || due || ':' || t.key, 0, 0, 0, 0, 0, '', false, carillon_clock(),
           carillon_clock(), due
    FROM started s
        JOIN jobs_workflowtask t ON t.version_id = run.version_id AND t.number = s.task
        JOIN jobs_job j ON j.id = t.job_id
    -- In a run that is retried a task starts once more as its trigger is replayed (lifecycle.sql). What succeeded before
    -- begins from the start.
    ON CONFLICT (id) DO UPDATE SET
        state = 'pending', reason = '', due_at = excluded.due_at, held = false, parked = false, parked_until = NULL,
        parked_for = '', budget_start = known.attempt_count, crash_count = 0, replay_count = known.replay_count + 1,
        cancel_requested = false, cancel_reason = '', worker = '', progress = NULL,
        checkpoint = CASE WHEN known.state <> 'succeeded' THEN known.checkpoint END,
        result = NULL, queued_at = NULL, started_at = NULL, finished_at = NULL, dismissed_at = NULL, dismissed_by = '',
        dismissed_note = '', job_version = excluded.job_version, job_type = excluded.job_type,
        priority = excluded.priority
    WHERE known.state IN ('succeeded', 'dead', 'skipped', 'cancelled');
    -- transition of runs: running -> succeeded, failed, cancelled
    UPDATE jobs_workflowrun SET finished_at = carillon_clock(), paused_at = NULL, state = CASE
        WHEN cancel_requested THEN 'cancelled'
        WHEN EXISTS (SELECT FROM jobs_taskrun WHERE run_id = due AND state IN ('failed', 'cancelled')) THEN 'failed'
        ELSE 'succeeded' END
    WHERE id = due AND state = 'running' AND NOT EXISTS (
        SELECT FROM jobs_taskrun WHERE run_id = due AND state IN ('waiting', 'ready', 'started'));
END $$;
"""
# Hidden jobs are no jobs to those who count and tell of jobs (migrations 0005, 0006). They come and go with their
# workflow, have no labels, and are never updated but when that is deleted.
_OF_JOBS = """
CREATE OR REPLACE FUNCTION carillon_tally_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_OP
    WHEN 'TRUNCATE' THEN
        DELETE FROM jobs_jobtally;
    WHEN 'UPDATE' THEN
        IF @new@ THEN
            INSERT INTO jobs_jobtally AS t (tenant_id, stripe, jobs)
            VALUES (NEW.tenant_id, pg_backend_pid() % 64, CASE WHEN NEW.deleted_at IS NULL AND NEW.status IN ('active', 'paused') THEN 1 ELSE -1 END)
            ON CONFLICT (tenant_id, stripe) DO UPDATE SET jobs = t.jobs + excluded.jobs;
        END IF;
    ELSE
        INSERT INTO jobs_jobtally AS t (tenant_id, stripe, jobs)
        SELECT tenant_id, pg_backend_pid() % 64, CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END * count(*)
        FROM changed WHERE changed.deleted_at IS NULL AND changed.status IN ('active', 'paused')
                       AND @changed@
        GROUP BY tenant_id ORDER BY tenant_id
        ON CONFLICT (tenant_id, stripe) DO UPDATE SET jobs = t.jobs + excluded.jobs;
    END CASE;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION carillon_note_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO jobs_event (tenant_id, at, kind, job_id, data)
        SELECT tenant_id, carillon_clock(), 'job.created', id, jsonb_build_object(
            'job_name', name, 'job_type', split_part(job_type, '@', 1), 'status', status, 'version', version)
        FROM changed WHERE deleted_at IS NULL AND @changed@;
    ELSIF @new@ THEN
        INSERT INTO jobs_event (tenant_id, at, kind, job_id, data)
        VALUES (NEW.tenant_id, carillon_clock(), CASE
                WHEN NEW.deleted_at IS NOT NULL THEN 'job.deleted'
                WHEN NEW.status = OLD.status THEN 'job.updated'
                WHEN NEW.status = 'active' THEN 'job.resumed'
                ELSE 'job.' || NEW.status END,
            NEW.id, jsonb_strip_nulls(jsonb_build_object(
                'job_name', NEW.name, 'job_type', split_part(NEW.job_type, '@', 1), 'status', NEW.status,
                'version', NEW.version, 'reason', nullif(NEW.status_reason, ''), 'until', NEW.paused_until,
                'requested', CASE WHEN NEW.status = 'paused' AND carillon_actor() ->> 'kind' <> 'engine' THEN true END)));
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION carillon_trail_created_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    actor jsonb := carillon_actor();
BEGIN
    INSERT INTO jobs_change (at, tenant_id, kind, object_id, name, action, actor_kind, actor, changes)
    SELECT carillon_clock(), tenant_id, 'job', id::text, left(name, 200), 'created', left(actor ->> 'kind', 16),
           left(actor ->> 'name', 200), '{}'
    FROM changed WHERE @changed@;
    RETURN NULL;
END $$;
"""
_HIDDEN = _OF_JOBS.replace("@new@", "NEW.workflow_id IS NULL").replace("@changed@", "workflow_id IS NULL")
#: As they were before, for a schema that goes back.
_NONE_HIDDEN = _OF_JOBS.replace("@new@", "true").replace("@changed@", "true")
# A new version tells of itself by its number; rows that retention drops have been told of.
_TRAIL = """
CREATE TRIGGER jobs_trail_rows AFTER INSERT OR UPDATE OF name, version, deleted_at ON jobs_workflow
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('workflow', '', '');
"""
_UNDO = "DROP FUNCTION {} CASCADE"


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0008_rates"),
        ("tenants", "0001_initial"),
    ]

    operations = [
        migrations.AlterField(
            model_name="change",
            name="kind",
            field=models.CharField(
                choices=[
                    ("job", "Job"),
                    ("job_type", "Job Type"),
                    ("tenant", "Tenant"),
                    ("api_key", "API key"),
                    ("secret", "Secret"),
                    ("trigger", "Trigger"),
                    ("operation", "Operation"),
                    ("user", "operator"),
                    ("group", "Group"),
                    ("installation", "Installation"),
                    ("target", "Target"),
                    ("workflow", "Workflow"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="workflow_id",
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="trigger",
            name="workflow_run_id",
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AlterField(
            model_name="trigger",
            name="origin",
            field=models.CharField(
                choices=[
                    ("schedule", "Schedule"),
                    ("catchup", "Catchup"),
                    ("run_now", "Run Now"),
                    ("run_beside", "Run now, beside others"),
                    ("backfill", "Backfill"),
                    ("workflow", "Workflow"),
                ],
                default="schedule",
                max_length=16,
            ),
        ),
        migrations.CreateModel(
            name="Workflow",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(db_collation="C", max_length=200)),
                ("version", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WorkflowVersion",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
                ("definition", models.JSONField()),
                ("task_count", models.PositiveIntegerField()),
                ("halts", models.BooleanField()),
                ("max_parallel", models.PositiveIntegerField(null=True)),
                ("created_at", models.DateTimeField()),
                (
                    "workflow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="versions",
                        to="jobs.workflow",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WorkflowRun",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        max_length=16,
                    ),
                ),
                ("input", models.JSONField(null=True)),
                ("scheduled_for", models.DateTimeField()),
                ("halted", models.BooleanField(db_default=False, default=False)),
                ("cancel_requested", models.BooleanField(db_default=False, default=False)),
                ("paused_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
                (
                    "workflow",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="jobs.workflow",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="jobs.workflowversion",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="TaskRun",
            fields=[
                ("id", models.UUIDField(default=new_id, editable=False, primary_key=True, serialize=False)),
                ("task", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("ready", "ready"),
                            ("started", "started"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("skipped", "skipped"),
                            ("cancelled", "cancelled"),
                        ],
                        max_length=16,
                    ),
                ),
                ("reason", models.CharField(blank=True, db_default="", default="", max_length=32)),
                ("undecided", models.PositiveIntegerField()),
                ("met", models.PositiveIntegerField(db_default=0, default=0)),
                ("exempt", models.BooleanField(db_default=False, default=False)),
                ("unsettled", TransactionId(editable=False, null=True)),
                ("ready_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="task_runs",
                        to="jobs.workflowrun",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WorkflowTask",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "version_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("key", models.CharField(max_length=63)),
                ("needs_all", models.BooleanField()),
                ("incoming", models.PositiveIntegerField()),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="jobs.workflowversion",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WorkflowEdge",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "version_id",
                        "before",
                        "after",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("before", models.PositiveIntegerField()),
                ("after", models.PositiveIntegerField()),
                (
                    "condition",
                    models.CharField(
                        choices=[
                            ("on_success", "on success"),
                            ("on_failure", "on failure"),
                            ("on_finished", "on finished"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="edges",
                        to="jobs.workflowversion",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="workflow",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at__isnull", True)),
                fields=("tenant", "name"),
                name="workflow_name_unique_among_living",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflow",
            constraint=models.CheckConstraint(
                condition=times_in_range("created_at", "updated_at", "deleted_at"),
                name="workflow_times_in_range",
            ),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(
                condition=models.Q(("deleted_at__isnull", False)),
                fields=["deleted_at"],
                name="workflow_deleted",
            ),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(
                condition=models.Q(("deleted_at", None)), fields=["tenant", "-id"], name="workflow_of_tenant"
            ),
        ),
        migrations.AddIndex(
            model_name="workflowrun",
            index=models.Index(fields=["tenant", "-id"], name="workflowrun_of_tenant"),
        ),
        migrations.AddIndex(
            model_name="workflowrun",
            index=models.Index(fields=["workflow", "-id"], name="workflowrun_of_workflow"),
        ),
        migrations.AddIndex(
            model_name="workflowrun",
            index=models.Index(
                condition=models.Q(("state", "running")), fields=["workflow"], name="workflowrun_running"
            ),
        ),
        migrations.AddIndex(
            model_name="taskrun",
            index=models.Index(
                condition=models.Q(("unsettled__isnull", False)),
                fields=["unsettled", "run"],
                name="taskrun_unsettled",
            ),
        ),
        migrations.AddIndex(
            model_name="taskrun",
            index=models.Index(
                condition=models.Q(("state__in", ["waiting", "ready", "started"])),
                fields=["run", "state"],
                name="taskrun_unfinished",
            ),
        ),
        migrations.AddConstraint(
            model_name="taskrun",
            constraint=models.UniqueConstraint(fields=("run", "task"), name="taskrun_one_a_task"),
        ),
        migrations.AddConstraint(
            model_name="taskrun",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "state__in",
                        ["waiting", "ready", "started", "succeeded", "failed", "skipped", "cancelled"],
                    )
                ),
                name="taskrun_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowversion",
            constraint=models.UniqueConstraint(
                fields=("workflow", "number"), name="workflowversion_numbered"
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowrun",
            constraint=models.UniqueConstraint(
                fields=("workflow", "scheduled_for"), name="workflowrun_one_an_instant"
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowrun",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["running", "succeeded", "failed", "cancelled"])),
                name="workflowrun_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowrun",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("finished_at__isnull", True), ("state", "running")),
                    models.Q(models.Q(("state", "running"), _negated=True), ("finished_at__isnull", False)),
                    _connector="OR",
                ),
                name="workflowrun_ended_is_stamped",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowrun",
            constraint=models.CheckConstraint(
                condition=times_in_range("scheduled_for", "created_at", "finished_at"),
                name="workflowrun_times_in_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowedge",
            constraint=models.CheckConstraint(
                condition=models.Q(("condition__in", ["on_success", "on_failure", "on_finished"])),
                name="workflowedge_condition_known",
            ),
        ),
        migrations.RunSQL(_NOTE, _UNDO.format("carillon_note_task()")),
        migrations.RunSQL(_SETTLE, _UNDO.format("carillon_settle_tasks()")),
        migrations.RunSQL(_SETTLE_RUN, _UNDO.format("carillon_settle_run(uuid)")),
        migrations.RunSQL(_HIDDEN, _NONE_HIDDEN),
        migrations.RunSQL(_TRAIL, "DROP TRIGGER jobs_trail_rows ON jobs_workflow"),
    ]
