"""Tasks that wait, and maps: a task once for each item of a list (ADR 32).

A wait is a trigger that is due when the wait is over at the latest. An item is a task run beside that of its map, which
has no trigger: it has started while its items are under way, ``undecided`` counts those that have not ended, ``met`` is
the first that was not let go yet. Migration 0013 makes the index that finds items.
"""

from importlib import import_module

from django.db import migrations, models

_before = import_module("jobs.migrations.0009_workflows")
# What a reference of a payload names (jobs.core.workflows.flow), as a task run finds it; null: there is nothing.
_VALUE = """
CREATE FUNCTION carillon_value(task_run uuid, reference text, OUT value jsonb, OUT too_large boolean)
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    parts text[] := string_to_array(reference, '.');
    own record;
    source record;
BEGIN
    too_large := false;
    SELECT r.run_id, r.item, r.value, run.version_id, run.input, run.scheduled_for INTO own
    FROM jobs_taskrun r JOIN jobs_workflowrun run ON run.id = r.run_id WHERE r.id = task_run;
    CASE parts[1] || '.' || parts[2]
    WHEN 'workflow.input' THEN value := own.input;
    WHEN 'run.scheduled_for' THEN value := to_jsonb(own.scheduled_for);
    WHEN 'map.item' THEN value := own.value;
    WHEN 'map.index' THEN value := to_jsonb(own.item);
    ELSE
        SELECT p.id, p.state, p.task, p.item_count INTO source
        FROM jobs_workflowtask k
            JOIN jobs_taskrun p ON p.run_id = own.run_id AND p.task = k.number AND p.item IS NULL
        WHERE k.version_id = own.version_id AND k.key = parts[1];
        IF source.item_count IS NULL THEN
            SELECT t.result INTO value FROM jobs_trigger t WHERE t.id = source.id AND source.state = 'succeeded';
        ELSIF source.state IN ('succeeded', 'failed', 'skipped', 'cancelled') THEN
            SELECT coalesce(sum(pg_column_size(t.result)), 0) > 4194304 INTO too_large
            FROM jobs_taskrun i JOIN jobs_trigger t ON t.id = i.id
            WHERE i.run_id = own.run_id AND i.task = source.task AND i.item < source.item_count;
            IF NOT too_large THEN
                -- Of an item that did not succeed: null.
                SELECT coalesce(jsonb_agg(coalesce(t.result, 'null') ORDER BY i.item), '[]') INTO value
                FROM jobs_taskrun i LEFT JOIN jobs_trigger t ON t.id = i.id AND i.state = 'succeeded'
                WHERE i.run_id = own.run_id AND i.task = source.task AND i.item < source.item_count;
            END IF;
        END IF;
    END CASE;
    value := value #> parts[3:];
END $$;
"""
# When a wait is over if nothing comes before. One of which the instant cannot be read is over now: its handler says why.
_WAIT_ENDS = """
CREATE FUNCTION carillon_wait_ends(task_run uuid, payload jsonb) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz;
BEGIN
    IF NOT payload ? 'until' THEN
        RETURN carillon_clock()
            + make_interval(secs => coalesce(payload ->> 'seconds', payload ->> 'timeout_seconds')::float);
    END IF;
    until := CASE jsonb_typeof(payload -> 'until') WHEN 'object' THEN (
        SELECT found.value #>> '{}' FROM carillon_value(task_run, payload #>> '{until,$from}') found)
        ELSE payload ->> 'until' END;
    RETURN CASE WHEN until < '2100-01-01+00' THEN greatest(until, carillon_clock()) ELSE carillon_clock() END;
EXCEPTION WHEN data_exception THEN
    RETURN carillon_clock();
END $$;
"""
# As Python makes ids (models.fields.new_id): they follow time.
_UUID7 = """
CREATE FUNCTION carillon_uuid7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING
        substring(int8send((extract(epoch FROM carillon_clock()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1),
        'hex')::uuid
$$;
"""
# A map that may start: a task run for each item. In a run that is retried since some failed, those that had succeeded
# with the same item are kept; otherwise all begin again.
_EXPAND = """
CREATE FUNCTION carillon_expand_map(map_id uuid, maps_over text, parallel integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    map record;
    list jsonb;
    number integer;
    remaining integer;
BEGIN
    SELECT run_id, task, exempt, item_count INTO map FROM jobs_taskrun WHERE id = map_id;
    SELECT found.value INTO list FROM carillon_value(map_id, maps_over) found;
    number := CASE jsonb_typeof(list) WHEN 'array' THEN jsonb_array_length(list) END;
    IF number IS NULL OR number > 10000 THEN
        -- transition of task runs: ready -> failed
        UPDATE jobs_taskrun SET state = 'failed', reason = CASE WHEN number IS NULL THEN 'no_list' ELSE 'too_long' END,
                                finished_at = carillon_clock(), unsettled = pg_current_xact_id()
        WHERE id = map_id AND state = 'ready';
        RETURN;
    END IF;
    -- transition of task runs: - -> waiting
    INSERT INTO jobs_taskrun AS known (id, run_id, task, item, value, state, undecided, exempt)
    SELECT carillon_uuid7(), map.run_id, map.task, e.nth - 1, e.value, 'waiting', 0, map.exempt
    FROM jsonb_array_elements(list) WITH ORDINALITY AS e(value, nth)
    ON CONFLICT (run_id, task, item) DO UPDATE SET
        state = 'waiting', reason = '', value = excluded.value, exempt = excluded.exempt, ready_at = NULL,
        finished_at = NULL
    WHERE map.item_count IS NULL OR known.state <> 'succeeded' OR known.value <> excluded.value;
    SELECT count(*) INTO remaining FROM jobs_taskrun
    WHERE run_id = map.run_id AND task = map.task AND item < number AND state = 'waiting';
    -- transition of task runs: ready -> started, succeeded
    UPDATE jobs_taskrun SET
        state = CASE remaining WHEN 0 THEN 'succeeded' ELSE 'started' END, undecided = remaining, met = 0,
        item_count = number, finished_at = CASE remaining WHEN 0 THEN carillon_clock() END,
        unsettled = CASE remaining WHEN 0 THEN pg_current_xact_id() END
    WHERE id = map_id AND state = 'ready';
    PERFORM carillon_release_items(map.run_id, map.task, parallel);
END $$;
"""
_RELEASE = """
CREATE FUNCTION carillon_release_items(run uuid, map integer, number integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- transition of task runs: waiting -> ready
    WITH released AS (
        UPDATE jobs_taskrun SET state = 'ready', ready_at = carillon_clock()
        WHERE id = ANY(ARRAY(
            SELECT i.id FROM jobs_taskrun i
            WHERE i.run_id = run AND i.task = map AND i.state = 'waiting'
              AND i.item >= (SELECT met FROM jobs_taskrun WHERE run_id = run AND task = map AND item IS NULL)
            ORDER BY i.item LIMIT number)) AND state = 'waiting'
        RETURNING item
    )
    UPDATE jobs_taskrun SET met = last.item + 1
    FROM (SELECT max(item) AS item FROM released) last
    WHERE run_id = run AND task = map AND jobs_taskrun.item IS NULL AND last.item IS NOT NULL;
END $$;
"""
# So many items of a map have ended: as many others are let go, or none any more; and with the last of them the map ends.
_SETTLE_MAP = """
CREATE FUNCTION carillon_settle_map(run uuid, map integer, ended integer, halted boolean, cancelled boolean)
    RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own record;
    skipped integer := 0;
BEGIN
    UPDATE jobs_taskrun SET undecided = undecided - ended
    WHERE run_id = run AND task = map AND item IS NULL AND state = 'started'
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
    WHERE id = own.id AND state = 'started' AND (skipped > 0 OR own.undecided = 0);
END $$;
"""
# As in 0009, and for waits and maps.
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
           v.max_parallel INTO run
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
                        WHERE r.run_id = due AND r.task = e.after AND r.item IS NULL AND r.state = 'waiting'
                        OFFSET 0) c, LATERAL (
                        SELECT k.needs_all, k.incoming FROM jobs_workflowtask k
                        WHERE k.version_id = run.version_id AND k.number = e.after
                        OFFSET 0) t
                    GROUP BY c.id, c.undecided, c.met, c.exempt, t.needs_all, t.incoming) w) f) n
        WHERE c.id = n.id AND c.state = 'waiting';
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
        UPDATE jobs_taskrun SET state = 'started' WHERE id IN (SELECT id FROM chosen) AND state = 'ready'
        RETURNING id, task, item
    )
    INSERT INTO jobs_trigger AS known (
        id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason, held, priority,
        idempotency_key, fence, attempt_count, budget_start, crash_count, replay_count, worker, cancel_requested,
        created_at, announced_at, workflow_run_id)
    -- Items of a map have instants of their own: whose run begins at a whole hundredth of a second (begin).
    SELECT s.id, j.id, run.tenant_id, j.job_type, j.version, 'workflow',
           run.scheduled_for + coalesce(s.item, 0) * interval '1 microsecond',
           CASE j.job_type WHEN 'carillon.wait' THEN carillon_wait_ends(s.id, j.payload) ELSE carillon_clock() END,
           'pending', '', false, j.priority, 'workflow-run:' || due || ':' || t.key || coalesce(':' || s.item, ''),
           0, 0, 0, 0, 0, '', false, carillon_clock(), carillon_clock(), due
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
        WHEN EXISTS (SELECT FROM jobs_taskrun WHERE run_id = due AND item IS NULL AND state IN ('failed', 'cancelled'))
            THEN 'failed'
        ELSE 'succeeded' END
    WHERE id = due AND state = 'running' AND NOT EXISTS (
        SELECT FROM jobs_taskrun WHERE run_id = due AND state IN ('waiting', 'ready', 'started'));
END $$;
"""
_MADE = {
    "carillon_value(uuid, text)": _VALUE,
    "carillon_wait_ends(uuid, jsonb)": _WAIT_ENDS,
    "carillon_uuid7()": _UUID7,
    "carillon_release_items(uuid, integer, integer)": _RELEASE,
    "carillon_expand_map(uuid, text, integer)": _EXPAND,
    "carillon_settle_map(uuid, integer, integer, boolean, boolean)": _SETTLE_MAP,
}


class Migration(migrations.Migration):
    dependencies = [("jobs", "0011_analyze_jobs")]
    operations = [
        migrations.AddField("workflowtask", "waits", models.BooleanField(db_default=False, default=False)),
        migrations.AddField(
            "workflowtask", "maps_over", models.CharField(blank=True, db_default="", default="", max_length=1000)
        ),
        migrations.AddField("workflowtask", "map_parallel", models.PositiveIntegerField(null=True)),
        migrations.AddField("taskrun", "item", models.PositiveIntegerField(null=True)),
        migrations.AddField("taskrun", "value", models.JSONField(null=True)),
        migrations.AddField("taskrun", "item_count", models.PositiveIntegerField(null=True)),
        *(migrations.RunSQL(made, f"DROP FUNCTION {name}") for name, made in _MADE.items()),
        migrations.RunSQL(
            _SETTLE_RUN, _before._SETTLE_RUN.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
        ),
    ]
