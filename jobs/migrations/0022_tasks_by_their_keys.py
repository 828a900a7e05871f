"""What starts and ends a run's tasks reads each row by its key, whatever the statistics say, and each no oftener than needed.

Statistics of a table where tasks rarely wait say that none does: then each of a thousand that became ready was looked for
among all thousand, and a fan-out took seconds. ``CASE state WHEN`` keeps the planner from the index of those that wait.
The functions are as migrations 0009, 0012, 0018 and 0019 made them but for that, and for the end of a task that is settled:
it looks at its own row, not at all that its transaction settled.

Rows of a run's tasks come and go under the run's row, so nothing depends on their foreign key to it. It was checked each
time a row was changed twice in a transaction, which each end of a task does.
"""

from importlib import import_module

import django.db.models.deletion
from django.db import migrations, models

_workflows = import_module("jobs.migrations.0009_workflows")
_maps = import_module("jobs.migrations.0012_waits_and_maps")
_traces = import_module("jobs.migrations.0018_traces_of_runs")
_runs = import_module("jobs.migrations.0019_runs_of_tasks")

_NOTE = """
CREATE OR REPLACE FUNCTION carillon_note_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    begun text;
BEGIN
    IF NEW.job_type = 'carillon.run' THEN
        -- The trigger and the run may end at once: whoever has this lock second sees the other's end.
        PERFORM FROM jobs_taskrun WHERE id = NEW.id FOR NO KEY UPDATE;
        SELECT state INTO begun FROM jobs_workflowrun WHERE trigger_id = NEW.id AND task_start = NEW.replay_count;
    END IF;
    -- transition of task runs: started -> succeeded, failed, cancelled
    UPDATE jobs_taskrun SET
        state = CASE coalesce(begun, NEW.state)
                WHEN 'succeeded' THEN 'succeeded' WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END,
        reason = CASE WHEN begun IS NULL THEN NEW.reason ELSE '' END,
        finished_at = CASE WHEN begun IS NULL THEN NEW.finished_at ELSE carillon_clock() END,
        unsettled = pg_current_xact_id()
    WHERE id = NEW.id AND CASE state WHEN 'started' THEN begun IS DISTINCT FROM 'running' END;
    RETURN NULL;
END $$;
"""
_NOTE_RUN = """
CREATE OR REPLACE FUNCTION carillon_note_run_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM jobs_taskrun WHERE id = NEW.trigger_id FOR NO KEY UPDATE;
    -- If the trigger has not ended, its own end comes second. Of an earlier start nothing is to be noted.
    -- transition of task runs: started -> succeeded, failed, cancelled
    UPDATE jobs_taskrun SET
        state = CASE NEW.state WHEN 'succeeded' THEN 'succeeded' WHEN 'cancelled' THEN 'cancelled' ELSE 'failed' END,
        finished_at = NEW.finished_at, unsettled = pg_current_xact_id()
    WHERE id = NEW.trigger_id AND CASE state WHEN 'started' THEN true END AND NOT EXISTS (
        SELECT FROM jobs_trigger t
        WHERE t.id = NEW.trigger_id
          AND (t.phase IN ('pending', 'retrying', 'in_flight') OR t.replay_count <> NEW.task_start));
    RETURN NULL;
END $$;
"""
_SETTLE = """
CREATE OR REPLACE FUNCTION carillon_settle_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    own uuid;
    due uuid;
BEGIN
    IF TG_TABLE_NAME = 'jobs_workflowrun' THEN
        own := NEW.trigger_id;
    ELSE
        own := NEW.id;
    END IF;
    IF (SELECT unsettled FROM jobs_taskrun WHERE id = own) IS NULL THEN
        RETURN NULL;
    END IF;
    FOR due IN SELECT DISTINCT run_id FROM jobs_taskrun WHERE unsettled = pg_current_xact_id() ORDER BY run_id LOOP
        PERFORM carillon_settle_run(due);
    END LOOP;
    RETURN NULL;
END $$;
"""
_RELEASE = """
CREATE OR REPLACE FUNCTION carillon_release_items(run uuid, map integer, number integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- transition of task runs: waiting -> ready
    WITH released AS (
        UPDATE jobs_taskrun SET state = 'ready', ready_at = carillon_clock()
        WHERE id = ANY(ARRAY(
            SELECT i.id FROM jobs_taskrun i
            WHERE i.run_id = run AND i.task = map AND CASE i.state WHEN 'waiting' THEN true END
              AND i.item >= (SELECT met FROM jobs_taskrun WHERE run_id = run AND task = map AND item IS NULL)
            ORDER BY i.item LIMIT number)) AND CASE state WHEN 'waiting' THEN true END
        RETURNING item
    )
    UPDATE jobs_taskrun SET met = last.item + 1
    FROM (SELECT max(item) AS item FROM released) last
    WHERE run_id = run AND task = map AND jobs_taskrun.item IS NULL AND last.item IS NOT NULL;
END $$;
"""
_SETTLE_MAP = """
CREATE OR REPLACE FUNCTION carillon_settle_map(run uuid, map integer, ended integer, halted boolean, cancelled boolean)
    RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own record;
    skipped integer := 0;
BEGIN
    UPDATE jobs_taskrun SET undecided = undecided - ended
    WHERE run_id = run AND task = map AND item IS NULL AND CASE state WHEN 'started' THEN true END
    RETURNING id, undecided, met, item_count, exempt INTO own;
    IF halted AND NOT own.exempt THEN
        -- transition of task runs: waiting -> skipped
        UPDATE jobs_taskrun SET state = 'skipped', reason = 'halted', finished_at = carillon_clock()
        WHERE run_id = run AND task = map AND item >= own.met AND state = 'waiting';
        GET DIAGNOSTICS skipped = ROW_COUNT;
    ELSE
        PERFORM carillon_release_items(run, map, ended);
    END IF;
    -- transition of task runs: started -> succeeded, failed, cancelled
    UPDATE jobs_taskrun SET
        undecided = own.undecided - skipped,
        state = CASE WHEN own.undecided > skipped THEN 'started'
                     WHEN NOT EXISTS (
                         SELECT FROM jobs_taskrun i
                         WHERE i.run_id = run AND i.task = map AND i.item < own.item_count AND i.state <> 'succeeded')
                         THEN 'succeeded'
                     WHEN cancelled THEN 'cancelled' ELSE 'failed' END,
        finished_at = CASE WHEN own.undecided = skipped THEN carillon_clock() END,
        unsettled = CASE WHEN own.undecided = skipped THEN pg_current_xact_id() END
    WHERE id = own.id AND CASE state WHEN 'started' THEN true END AND (skipped > 0 OR own.undecided = 0);
END $$;
"""
_SETTLE_RUN = """
CREATE OR REPLACE FUNCTION carillon_settle_run(due uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    run record;
    ended integer[];
    states text[];
    exempts boolean[];
    items integer[];
    failed boolean;
BEGIN
    SELECT r.id, r.tenant_id, r.version_id, r.scheduled_for, r.halted, r.paused_at, r.cancel_requested, v.halts,
           v.max_parallel, r.trace INTO run
    FROM jobs_workflowrun r JOIN jobs_workflowversion v ON v.id = r.version_id
    WHERE r.id = due FOR NO KEY UPDATE OF r;
    LOOP
        -- What a caller asked to go on without counts as succeeded.
        WITH settled AS (
            UPDATE jobs_taskrun SET unsettled = NULL WHERE run_id = due AND unsettled = pg_current_xact_id()
            RETURNING task, item, exempt,
                CASE WHEN state = 'skipped' AND reason = 'requested' THEN 'succeeded' ELSE state END AS state
        )
        SELECT array_agg(task) FILTER (WHERE item IS NULL), array_agg(state) FILTER (WHERE item IS NULL),
               array_agg(exempt) FILTER (WHERE item IS NULL), array_agg(task) FILTER (WHERE item IS NOT NULL),
               coalesce(bool_or(state IN ('failed', 'cancelled')), false)
        INTO ended, states, exempts, items, failed FROM settled;
        IF ended IS NULL AND items IS NULL THEN
            -- Maps that may start become a task run for each item, or end at once.
            PERFORM carillon_expand_map(r.id, t.maps_over, t.map_parallel)
            FROM jobs_taskrun r JOIN jobs_workflowtask t ON t.version_id = run.version_id AND t.number = r.task
            WHERE r.run_id = due AND r.state = 'ready' AND r.item IS NULL AND t.maps_over <> '' AND run.paused_at IS NULL;
            EXIT WHEN NOT EXISTS (
                SELECT FROM jobs_taskrun WHERE run_id = due AND unsettled = pg_current_xact_id());
            CONTINUE;
        END IF;
        IF run.halts AND NOT run.halted AND failed THEN
            UPDATE jobs_workflowrun SET halted = true WHERE id = due;
            run.halted := true;
        END IF;
        PERFORM carillon_settle_map(due, n.task, n.ended, run.halted, run.cancel_requested)
        FROM (SELECT task, count(*)::int AS ended FROM unnest(items) AS i(task) GROUP BY task) n;
        WITH next AS MATERIALIZED (
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
                    -- From the edges of what ended, one look-up each: waiting rows beside these are not read.
                    FROM (
                        SELECT edge.after, edge.condition, d.exempt, CASE edge.condition
                                   WHEN 'on_success' THEN d.state = 'succeeded'
                                   WHEN 'on_failure' THEN d.state IN ('failed', 'cancelled')
                                   ELSE true END AS is_met
                        FROM unnest(ended, states, exempts) AS d(task, state, exempt)
                            JOIN jobs_workflowedge edge ON edge.version_id = run.version_id AND edge.before = d.task
                        OFFSET 0) e, LATERAL (
                        SELECT r.id, r.undecided, r.met, r.exempt FROM jobs_taskrun r
                        WHERE r.run_id = due AND r.task = e.after AND r.item IS NULL
                          AND CASE r.state WHEN 'waiting' THEN true END
                        OFFSET 0) c, LATERAL (
                        SELECT k.needs_all, k.incoming FROM jobs_workflowtask k
                        WHERE k.version_id = run.version_id AND k.number = e.after
                        OFFSET 0) t
                    GROUP BY c.id, c.undecided, c.met, c.exempt, t.needs_all, t.incoming) w) f)
        -- transition of task runs: waiting -> ready, skipped
        UPDATE jobs_taskrun c SET
            undecided = n.undecided, met = n.met, exempt = n.exempt, state = n.state,
            reason = CASE WHEN n.state <> 'skipped' THEN '' WHEN n.fits THEN 'halted' ELSE 'upstream' END,
            ready_at = CASE n.state WHEN 'ready' THEN carillon_clock() END,
            finished_at = CASE n.state WHEN 'skipped' THEN carillon_clock() END,
            unsettled = CASE n.state WHEN 'skipped' THEN pg_current_xact_id() END
        FROM next n
        WHERE c.id = n.id AND CASE c.state WHEN 'waiting' THEN true END;
    END LOOP;
    -- transition of task runs: ready -> started
    WITH present AS (
        SELECT r.id, r.state, r.ready_at, r.task, r.item, t.waits OR r.item_count IS NOT NULL AS is_free
        FROM jobs_taskrun r JOIN jobs_workflowtask t ON t.version_id = run.version_id AND t.number = r.task
        WHERE r.run_id = due AND run.paused_at IS NULL
          AND (r.state = 'ready' OR r.state = 'started' AND run.max_parallel IS NOT NULL)
    ), chosen AS (
        (SELECT id FROM present WHERE state = 'ready' AND NOT is_free ORDER BY ready_at, task, item
         LIMIT CASE WHEN run.max_parallel IS NOT NULL THEN greatest(0, run.max_parallel - (
             SELECT count(*) FROM present WHERE state = 'started' AND NOT is_free)) END)
        UNION ALL
        SELECT id FROM present WHERE state = 'ready' AND is_free
    ), started AS (
        UPDATE jobs_taskrun SET state = 'started'
        WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND CASE state WHEN 'ready' THEN true END
        RETURNING id, task, item
    )
    INSERT INTO jobs_trigger AS known (
        id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason, held, priority,
        idempotency_key, fence, attempt_count, budget_start, crash_count, replay_count, worker, cancel_requested,
        created_at, announced_at, workflow_run_id, trace)
    -- Items of a map have instants of their own: whose run begins at a whole hundredth of a second (begin).
    SELECT s.id, j.id, run.tenant_id, j.job_type, j.version, 'workflow',
           run.scheduled_for + coalesce(s.item, 0) * interval '1 microsecond',
           CASE j.job_type WHEN 'carillon.wait' THEN carillon_wait_ends(s.id, j.payload) ELSE carillon_clock() END,
           'pending', '', false, j.priority, 'workflow-run:' || due || ':' || t.key || coalesce(':' || s.item, ''),
           0, 0, 0, 0, 0, '', false, carillon_clock(), carillon_clock(), due, run.trace
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
        priority = excluded.priority, trace = excluded.trace
    WHERE known.state IN ('succeeded', 'dead', 'skipped', 'cancelled');
    -- transition of runs: running -> succeeded, failed, cancelled
    UPDATE jobs_workflowrun SET finished_at = carillon_clock(), paused_at = NULL, state = CASE
        WHEN cancel_requested THEN 'cancelled'
        WHEN EXISTS (SELECT FROM jobs_taskrun WHERE run_id = due AND item IS NULL AND state IN ('failed', 'cancelled'))
            THEN 'failed'
        ELSE 'succeeded' END
    WHERE id = due AND state = 'running' AND NOT EXISTS (
        SELECT FROM jobs_taskrun WHERE run_id = due AND state IN ('waiting', 'ready', 'started'));
END $$;
"""
_REPLACED = (
    (_NOTE, _runs._NOTE),
    (_NOTE_RUN, _runs._NOTE_RUN.split("CREATE TRIGGER")[0]),
    (_SETTLE, _workflows._SETTLE.split("CREATE CONSTRAINT TRIGGER")[0]),
    (_RELEASE, _maps._RELEASE),
    (_SETTLE_MAP, _maps._SETTLE_MAP),
    (_SETTLE_RUN, _traces._with_traces()),
)


def _again(text: str) -> str:
    return text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0021_workflows_notify")]
    operations = [
        *(migrations.RunSQL(text, _again(before)) for text, before in _REPLACED),
        migrations.AlterField(
            "taskrun",
            "run",
            models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="task_runs",
                to="jobs.workflowrun",
            ),
        ),
    ]
