-- Workflows (ADR 32). Functions of migrations 0009, 0012, 0019 and 0022 decide what follows from the end of a task.

-- name: insert_graph
-- Write the tasks and edges of a version, by their numbers.
WITH tasks AS (
    INSERT INTO jobs_workflowtask (version_id, number, key, job_id, needs_all, incoming, waits, maps_over, map_parallel)
    SELECT %(version_id)s::uuid, t.*
    FROM unnest(%(numbers)s::int[], %(keys)s::text[], %(job_ids)s::uuid[], %(needs_all)s::boolean[], %(incoming)s::int[],
                %(waits)s::boolean[], %(maps_over)s::text[], %(map_parallel)s::int[]) AS t
)
INSERT INTO jobs_workflowedge (version_id, before, after, condition)
SELECT %(version_id)s::uuid, e.before, e.after, e.condition
FROM unnest(%(befores)s::int[], %(afters)s::int[], %(conditions)s::text[]) AS e(before, after, condition);

-- name: begin
-- Begin a run of a workflow's present version, with a task run for each task. Begin none if the workflow is deleted, or
-- has a run of that instant. %(ids)s: as many as the version has tasks; the caller has read the version. A run that has
-- a deadline must be cancelled then. For a run that a task begins: %(task_start)s, %(depth)s and %(root_id)s.
-- transition of runs: - -> running
-- transition of task runs: - -> waiting, ready
-- locks: the workflow's row, waits (request)
-- index: primary keys
-- returns: id, scheduled_for
WITH run AS (
    INSERT INTO jobs_workflowrun (
        id, tenant_id, workflow_id, version_id, state, input, scheduled_for, created_at, origin, trigger_id, trace,
        task_start, depth, root_id)
    SELECT %(id)s, w.tenant_id, w.id, v.id, 'running', %(input)s::jsonb,
           CASE WHEN %(scheduled_for)s::timestamptz IS NOT NULL THEN %(scheduled_for)s::timestamptz
                -- The items of its maps have instants of their own, up to the next hundredth of a second.
                WHEN EXISTS (SELECT FROM jobs_workflowtask t WHERE t.version_id = v.id AND t.maps_over <> '')
                    THEN date_bin('10 milliseconds', carillon_clock(), '2000-01-01')
                ELSE carillon_clock() END, carillon_clock(), %(origin)s, %(trigger_id)s, %(trace)s,
           %(task_start)s, %(depth)s, %(root_id)s
    FROM (SELECT * FROM jobs_workflow WHERE id = %(workflow_id)s AND deleted_at IS NULL FOR KEY SHARE) w
        JOIN jobs_workflowversion v ON v.workflow_id = w.id AND v.id = %(version_id)s
    ON CONFLICT (workflow_id, scheduled_for) DO NOTHING
    RETURNING id, tenant_id, version_id, scheduled_for
), planned AS (
    INSERT INTO jobs_taskrun (id, run_id, task, state, undecided, ready_at)
    SELECT i.id, run.id, t.number, CASE t.incoming WHEN 0 THEN 'ready' ELSE 'waiting' END, t.incoming,
           CASE t.incoming WHEN 0 THEN carillon_clock() END
    FROM run JOIN jobs_workflowtask t ON t.version_id = run.version_id
        JOIN unnest(%(ids)s::uuid[]) WITH ORDINALITY AS i(id, nth) ON i.nth = t.number + 1
), bounded AS (
    INSERT INTO jobs_duecancel (run_id, tenant_id, at, reason)
    SELECT run.id, run.tenant_id, carillon_clock() + v.deadline, 'deadline'
    FROM run JOIN jobs_workflowversion v ON v.id = run.version_id
    WHERE v.deadline IS NOT NULL
)
SELECT id, scheduled_for FROM run;

-- name: firing
-- The firing of a workflow's schedule that a worker is about to begin a run for, with the workflow's present version.
-- Its row stays locked until the run is committed: a cancel or a replacement finds either the firing or the run.
-- locks: the trigger's row, waits (worker)
-- index: primary keys, workflowversion_numbered
-- returns: workflow_id, version_id, task_count, scheduled_for, origin; no row once the firing is cancelled or another
-- worker's, or the workflow is deleted
SELECT w.id AS workflow_id, v.id AS version_id, v.task_count, t.scheduled_for, t.origin
FROM (SELECT job_id, scheduled_for, origin FROM jobs_trigger
      WHERE id = %(id)s AND fence = %(fence)s AND CASE state WHEN 'running' THEN NOT cancel_requested END
      FOR NO KEY UPDATE) t, LATERAL (
    SELECT workflow_id FROM jobs_job WHERE id = t.job_id OFFSET 0) j
    JOIN jobs_workflow w ON w.id = j.workflow_id AND w.deleted_at IS NULL
    JOIN jobs_workflowversion v ON v.workflow_id = w.id AND v.number = w.version;

-- name: inner
-- The start of a task for which a worker is about to begin a run of the workflow that has this name now. The trigger's
-- row stays locked until the run is committed: a cancel finds either the trigger or the run.
-- locks: the trigger's row, waits (worker)
-- index: primary keys, workflowrun_one_a_start, workflow_name_unique_among_living, workflowversion_numbered,
-- workflowrun_of_root
-- returns: task_start; known_id: the run that this start has begun; depth, root_id and trace for such a run; below: how
-- many runs lie below the root, counted up to %(most_below)s; workflow_id, version_id, task_count (null: no workflow
-- has the name); max_bytes, now; no row once the start is cancelled or another worker's
SELECT t.replay_count AS task_start, known.id AS known_id, p.depth + 1 AS depth, coalesce(p.root_id, p.id) AS root_id,
       p.trace, (SELECT count(*) FROM (
           SELECT FROM jobs_workflowrun r WHERE r.root_id = coalesce(p.root_id, p.id) LIMIT %(most_below)s) r) AS below,
       w.id AS workflow_id, v.id AS version_id, v.task_count, tenant.max_payload_bytes AS max_bytes,
       date_bin('10 milliseconds', carillon_clock(), '2000-01-01') AS now
FROM (SELECT id, tenant_id, replay_count, workflow_run_id FROM jobs_trigger
      WHERE id = %(id)s AND fence = %(fence)s AND CASE state WHEN 'running' THEN NOT cancel_requested END
      FOR NO KEY UPDATE) t
    JOIN jobs_workflowrun p ON p.id = t.workflow_run_id AND NOT p.cancel_requested
    JOIN tenants_tenant tenant ON tenant.id = t.tenant_id
    LEFT JOIN jobs_workflowrun known ON known.trigger_id = t.id AND known.task_start = t.replay_count
    LEFT JOIN jobs_workflow w ON w.tenant_id = t.tenant_id AND w.name = %(name)s AND w.deleted_at IS NULL
    LEFT JOIN jobs_workflowversion v ON v.workflow_id = w.id AND v.number = w.version;

-- name: run_of_instant
-- The run of a workflow that has this instant, and the firing that began it (null: a caller did).
-- index: workflowrun_one_an_instant
-- returns: id, trigger_id
SELECT id, trigger_id FROM jobs_workflowrun WHERE workflow_id = %(workflow_id)s AND scheduled_for = %(scheduled_for)s;

-- name: settle
-- Start the tasks of a run that may start, and end the run if nothing is left.
-- locks: the run's row, waits (request)
SELECT carillon_settle_run(%(id)s);

-- name: started
-- The triggers of a run that have not ended.
-- index: taskrun_unfinished
-- returns: id
SELECT id FROM jobs_taskrun WHERE run_id = %(id)s AND state = 'started' ORDER BY id;

-- name: begin_cancel
-- From here on no task of the run starts. A worker holds the row of its trigger when it asks for the run's row at its
-- commit, so triggers are cancelled in a transaction after this one.
-- locks: the run's row, waits (request)
-- returns: id, if it had not ended
UPDATE jobs_workflowrun SET
    cancel_requested = true, cancel_reason = CASE WHEN cancel_requested THEN cancel_reason ELSE %(reason)s END
WHERE id = %(id)s AND tenant_id = %(tenant_id)s AND state = 'running'
RETURNING id;

-- name: cancel_waiting
-- End the tasks that have not started.
-- transition of task runs: waiting, ready -> cancelled
-- locks: rows of task runs, held by begin_cancel's lock of the run
-- index: taskrun_unfinished
UPDATE jobs_taskrun SET state = 'cancelled', reason = 'requested', finished_at = carillon_clock(),
                        unsettled = pg_current_xact_id()
WHERE run_id = %(id)s AND state IN ('waiting', 'ready');

-- name: cancel_inner
-- Insert due cancels for the runs that tasks of a run have begun and that go on. A beat cancels them, like other due
-- cancels.
-- locks: due cancels, waits (request)
-- index: taskrun_unfinished, workflowrun_one_a_start, primary key of jobs_duecancel
INSERT INTO jobs_duecancel (run_id, tenant_id, at, reason)
SELECT c.id, c.tenant_id, carillon_clock(), 'outer'
FROM jobs_taskrun r JOIN jobs_workflowrun c ON c.trigger_id = r.id AND c.task_start IS NOT NULL
WHERE r.run_id = %(id)s AND r.state = 'started' AND c.state = 'running'
ORDER BY c.id
ON CONFLICT (run_id) DO UPDATE SET at = excluded.at, reason = excluded.reason WHERE jobs_duecancel.at > excluded.at;

-- name: due_cancels
-- Runs that must be cancelled by now, the earliest first, and whether they still run. Runs that another transaction has
-- locked are left out.
-- locks: rows of runs, SKIP LOCKED
-- index: duecancel_at, primary key of jobs_workflowrun
-- returns: run_id, tenant_id, at, reason, running
SELECT due.*, run.running FROM (
    SELECT run_id, tenant_id, at, reason FROM jobs_duecancel
    WHERE at <= carillon_now() ORDER BY at LIMIT %(limit)s) due, LATERAL (
    SELECT state = 'running' AS running FROM jobs_workflowrun WHERE id = due.run_id
    FOR NO KEY UPDATE SKIP LOCKED) run;

-- name: cancels_done
-- Delete the due cancels of runs that were cancelled, or had ended before. A retry meanwhile has set another instant.
-- locks: rows of due cancels, SKIP LOCKED
-- index: primary key of jobs_duecancel
DELETE FROM jobs_duecancel WHERE run_id = ANY(ARRAY(
    SELECT due.run_id
    FROM unnest(%(ids)s::uuid[], %(ats)s::timestamptz[]) AS done(run_id, at), LATERAL (
        SELECT run_id FROM jobs_duecancel WHERE run_id = done.run_id AND at = done.at FOR UPDATE SKIP LOCKED) due));

-- name: bound
-- Insert a due cancel for a run that goes on, for the time when its deadline is over once more.
-- locks: the run's due cancel, waits (request)
-- index: primary keys
INSERT INTO jobs_duecancel (run_id, tenant_id, at, reason)
SELECT run.id, run.tenant_id, carillon_clock() + v.deadline, 'deadline'
FROM jobs_workflowrun run JOIN jobs_workflowversion v ON v.id = run.version_id
WHERE run.id = %(id)s AND v.deadline IS NOT NULL
ON CONFLICT (run_id) DO UPDATE SET at = excluded.at, reason = excluded.reason;

-- name: pause
-- From here on no task of the run starts; started tasks go on.
-- locks: the run's row, waits (request)
-- index: primary key
-- returns: id and since when, if it had not ended
UPDATE jobs_workflowrun SET paused_at = coalesce(paused_at, carillon_clock())
WHERE id = %(id)s AND tenant_id = %(tenant_id)s AND state = 'running'
RETURNING id, paused_at;

-- name: resume
-- Let ready tasks start again: the caller settles the run.
-- locks: the run's row, waits (request)
-- index: primary key
-- returns: id, if it had not ended
UPDATE jobs_workflowrun SET paused_at = NULL
WHERE id = %(id)s AND tenant_id = %(tenant_id)s AND state = 'running'
RETURNING id;

-- name: answer
-- End the waits of a run that a signal or an approval of this name ends: those that have started, and whose time is not
-- over. A refused approval cancels its task.
-- transition: pending -> succeeded, cancelled
-- locks: trigger rows, waits (request)
-- index: taskrun_unfinished, primary keys
-- returns: id, tenant_id, job_type, state, origin, fence, replay_count
UPDATE jobs_trigger t SET
    state = CASE WHEN %(refused)s THEN 'cancelled' ELSE 'succeeded' END,
    reason = CASE WHEN %(refused)s THEN 'requested' ELSE '' END,
    result = %(result)s::jsonb, finished_at = carillon_clock(), held = false, parked = false, parked_until = NULL
WHERE t.tenant_id = %(tenant_id)s AND t.state = 'pending' AND t.id = ANY(ARRAY(
    SELECT r.id
    FROM jobs_taskrun r
        JOIN jobs_workflowrun run ON run.id = r.run_id
        JOIN jobs_workflowtask k ON k.version_id = run.version_id AND k.number = r.task AND k.waits
        JOIN jobs_job j ON j.id = k.job_id
    WHERE r.run_id = %(id)s AND r.state = 'started' AND j.payload ->> 'type' = %(type)s
      AND CASE %(type)s WHEN 'signal' THEN j.payload ->> 'name' ELSE k.key END = %(name)s))
RETURNING t.id, t.tenant_id, t.job_type, t.state, t.origin, t.fence, t.replay_count;

-- name: begin_retry
-- Let a run that ended go on, unless its workflow is deleted: its hidden jobs fire no more. A run that succeeded goes
-- on only if tasks are named. Tasks that start from here on are part of the caller's trace.
-- transition of runs: succeeded, failed, cancelled -> running
-- locks: the workflow's row, then the run's, waits (request)
-- returns: id, version_id
UPDATE jobs_workflowrun run SET state = 'running', finished_at = NULL, halted = false, cancel_requested = false,
                                cancel_reason = '', paused_at = NULL, trace = %(trace)s
FROM (SELECT id FROM jobs_workflow WHERE id = (SELECT workflow_id FROM jobs_workflowrun WHERE id = %(id)s)
        AND deleted_at IS NULL FOR KEY SHARE) w
WHERE run.id = %(id)s AND run.tenant_id = %(tenant_id)s AND w.id = run.workflow_id
  AND run.state IN ('failed', 'cancelled', CASE WHEN %(names_tasks)s THEN 'succeeded' END)
RETURNING run.id, run.version_id;

-- name: pass_over
-- Go on as if the named tasks, which failed or were cancelled, had succeeded.
-- transition of task runs: failed, cancelled -> skipped
-- locks: rows of task runs, held by begin_retry's lock of the run
-- index: taskrun_one_an_item, primary key
-- returns: task
UPDATE jobs_taskrun SET state = 'skipped', reason = 'requested'
WHERE run_id = %(id)s AND item IS NULL AND state IN ('failed', 'cancelled') AND task = ANY(ARRAY(
    SELECT number FROM jobs_workflowtask WHERE version_id = %(version_id)s AND key = ANY(%(tasks)s::text[])))
RETURNING task;

-- name: reset
-- Send back the named tasks or, without names, the tasks that failed, were cancelled or were skipped because the
-- workflow halts. Also send back all tasks downstream of these, or of %(passed)s, which pass_over passed over and which
-- stay passed over. The ends of other tasks right before them must be settled once more: they decide the edges again. A
-- map that failed keeps the results of its items, unless it is named or a task before it begins again.
-- transition of task runs: succeeded, failed, skipped, cancelled -> waiting, ready
-- locks: rows of task runs, held by begin_retry's lock of the run
-- index: taskrun_one_an_item, primary keys
WITH RECURSIVE first(task) AS (
    SELECT task FROM jobs_taskrun
    WHERE run_id = %(id)s AND item IS NULL AND CASE
        WHEN %(tasks)s::text[] <> '{}' THEN task IN (
            SELECT number FROM jobs_workflowtask WHERE version_id = %(version_id)s AND key = ANY(%(tasks)s::text[]))
        ELSE state IN ('failed', 'cancelled') AND %(passed)s::int[] = '{}' OR state = 'skipped' AND reason = 'halted' END
), following(task) AS (
    SELECT e.after FROM jobs_workflowedge e
    WHERE e.version_id = %(version_id)s
      AND (e.before = ANY(%(passed)s::int[]) OR e.before = ANY(ARRAY(SELECT task FROM first)))
    UNION
    SELECT e.after
    FROM following JOIN jobs_workflowedge e ON e.version_id = %(version_id)s AND e.before = following.task
), again(task) AS (
    SELECT task FROM (SELECT task FROM first UNION SELECT task FROM following) a WHERE task <> ALL(%(passed)s::int[])
), back AS (
    UPDATE jobs_taskrun r SET
        state = CASE t.incoming WHEN 0 THEN 'ready' ELSE 'waiting' END, reason = '', undecided = t.incoming, met = 0,
        exempt = false, ready_at = CASE t.incoming WHEN 0 THEN carillon_clock() END, finished_at = NULL,
        item_count = CASE WHEN %(tasks)s::text[] = '{}' AND r.task <> ALL(ARRAY(SELECT task FROM following))
                     THEN r.item_count END
    FROM jobs_workflowtask t
    WHERE r.run_id = %(id)s AND r.item IS NULL AND r.task = ANY(ARRAY(SELECT task FROM again))
      AND t.version_id = %(version_id)s AND t.number = r.task
)
UPDATE jobs_taskrun SET unsettled = pg_current_xact_id()
WHERE run_id = %(id)s AND item IS NULL AND task <> ALL(ARRAY(SELECT task FROM again)) AND task = ANY(ARRAY(
    SELECT e.before FROM jobs_workflowedge e
    WHERE e.version_id = %(version_id)s AND e.after = ANY(ARRAY(SELECT task FROM again))));

-- name: unknown_tasks
-- Those of the names that no task of a version has.
-- index: primary key
-- returns: nth (from 0)
SELECT (w.nth - 1)::int AS nth FROM unnest(%(tasks)s::text[]) WITH ORDINALITY AS w(key, nth)
WHERE w.key NOT IN (SELECT key FROM jobs_workflowtask WHERE version_id = %(version_id)s)
ORDER BY w.nth;

-- name: values
-- The values that claimed tasks need from elsewhere, each for its trigger: values that their payloads take, and the run
-- that each is a task of (``.task``). Values that do not exist are left out.
-- index: primary keys, taskrun_one_an_item
-- returns: nth (from 1), value, too_large (then value is null), scheduled_for; input: only with the first ``.task`` of
-- each run, because it may be large
SELECT w.nth, found.value, found.too_large, run.scheduled_for,
       CASE WHEN w.reference = '.task'
                 AND w.nth = min(w.nth) FILTER (WHERE w.reference = '.task') OVER (PARTITION BY run.id)
           THEN run.input END AS input
FROM unnest(%(ids)s::uuid[], %(references)s::text[]) WITH ORDINALITY AS w(id, reference, nth), LATERAL (
    SELECT run_id, task FROM jobs_taskrun WHERE id = w.id OFFSET 0) own, LATERAL (
    SELECT id, workflow_id, version_id, input, scheduled_for
    FROM jobs_workflowrun WHERE id = own.run_id OFFSET 0) run, LATERAL (
    SELECT jsonb_build_object('workflow_id', f.id, 'workflow_name', f.name, 'version', v.number, 'run_id', run.id,
                              'task', k.key) AS value, false AS too_large
    FROM jobs_workflow f, jobs_workflowversion v, jobs_workflowtask k
    WHERE w.reference = '.task' AND f.id = run.workflow_id AND v.id = run.version_id
      AND k.version_id = run.version_id AND k.number = own.task
    UNION ALL
    SELECT taken.value, taken.too_large
    FROM (SELECT 1 WHERE w.reference <> '.task') one, carillon_value(w.id, w.reference) taken
    WHERE taken.value IS NOT NULL OR taken.too_large) found;

-- name: task_runs
-- The tasks of a run. Each comes with the tasks before it, with its trigger, once it has one that retention has not
-- dropped, and with the run that it last began, if it begins runs.
-- index: primary keys, taskrun_one_an_item, workflowrun_one_a_start
-- returns: one row a task, in the order of the version
WITH version AS MATERIALIZED (
    SELECT r.version_id, (SELECT jsonb_agg(t.key ORDER BY t.number) FROM jobs_workflowtask t
                          WHERE t.version_id = r.version_id) AS keys
    FROM jobs_workflowrun r WHERE r.id = %(id)s
), befores AS MATERIALIZED (
    -- One value for all tasks: a join of tasks with edges may become a loop in a loop.
    SELECT jsonb_object_agg(after, listed) AS of_number FROM (
        SELECT after, jsonb_agg(jsonb_build_object('task', (SELECT keys FROM version) -> before, 'on', condition)
                                ORDER BY before) AS listed
        FROM jobs_workflowedge WHERE version_id = (SELECT version_id FROM version)
        GROUP BY after) edges
)
SELECT t.key AS task, r.state, r.reason, coalesce(b.of_number -> t.number::text, '[]') AS after, r.ready_at,
       r.finished_at, f.id AS trigger_id, f.state AS trigger_state, f.due_at, f.started_at, f.attempt_count,
       CASE WHEN t.waits THEN (SELECT j.payload FROM jobs_job j WHERE j.id = t.job_id) END AS wait,
       r.item_count, CASE WHEN r.item_count IS NOT NULL AND r.state = 'started' THEN r.undecided END AS items_left,
       t.needs_all, r.exempt, i.id AS inner_run_id, i.state AS inner_run_state
FROM befores b, jobs_workflowrun run
    JOIN jobs_workflowtask t ON t.version_id = run.version_id
    JOIN jobs_taskrun r ON r.run_id = run.id AND r.task = t.number AND r.item IS NULL
    LEFT JOIN jobs_trigger f ON f.id = r.id
    LEFT JOIN LATERAL (
        SELECT id, state FROM jobs_workflowrun
        WHERE trigger_id = r.id AND task_start IS NOT NULL ORDER BY task_start DESC LIMIT 1) i ON true
WHERE run.id = %(id)s
ORDER BY t.number;

-- name: purge_runs
-- Drop runs that ended before the retention began, with their task runs: of up to %(limit)s runs as many as have about
-- %(most_rows)s task runs. One run may have ten thousand task runs for each of its maps.
-- locks: rows of runs, SKIP LOCKED
-- index: primary key (UUIDv7 ids follow time), taskrun_one_an_item
-- returns: id, seen (how many were looked at)
WITH past AS MATERIALIZED (
    SELECT id FROM jobs_workflowrun
    WHERE id < %(before_id)s::uuid AND finished_at < carillon_now() - %(retention)s
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), gone AS MATERIALIZED (
    SELECT id FROM (
        SELECT past.id, sum(t.number) OVER (ORDER BY past.id) - t.number AS before
        FROM past, LATERAL (SELECT count(*) AS number FROM jobs_taskrun WHERE run_id = past.id) t) counted
    WHERE before < %(most_rows)s
), tasks AS (
    DELETE FROM jobs_taskrun WHERE run_id = ANY(ARRAY(SELECT id FROM gone))
), due AS (
    DELETE FROM jobs_duecancel WHERE run_id = ANY(ARRAY(SELECT id FROM gone))
)
DELETE FROM jobs_workflowrun WHERE id = ANY(ARRAY(SELECT id FROM gone))
RETURNING id, (SELECT count(*) FROM past) AS seen;

-- name: purge_deleted
-- Drop versions of workflows that were deleted before the retention began and have no runs left: as many versions as
-- have about %(limit)s tasks. Also drop the workflows whose last versions these are. One workflow may have a million
-- tasks in all its versions. Their hidden jobs count as deleted since the workflow was deleted, and are dropped as all
-- deleted jobs are.
-- locks: rows of workflows, SKIP LOCKED; then of their hidden jobs, which nothing else locks any more, waits
-- index: workflow_deleted, workflowrun_of_workflow, workflowversion_numbered, primary keys
-- returns: id of each version
WITH gone AS MATERIALIZED (
    SELECT id, deleted_at FROM jobs_workflow w
    WHERE deleted_at < carillon_now() - %(retention)s
      AND (SELECT r.id FROM jobs_workflowrun r WHERE r.workflow_id = w.id LIMIT 1) IS NULL
    ORDER BY deleted_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), versions AS MATERIALIZED (
    SELECT id, workflow_id FROM (
        SELECT id, workflow_id, sum(task_count) OVER (ORDER BY id) - task_count AS tasks_before
        FROM jobs_workflowversion WHERE workflow_id = ANY(ARRAY(SELECT id FROM gone))) v
    WHERE tasks_before < %(limit)s
), edges AS (
    DELETE FROM jobs_workflowedge WHERE version_id = ANY(ARRAY(SELECT id FROM versions))
), tasks AS (
    DELETE FROM jobs_workflowtask WHERE version_id = ANY(ARRAY(SELECT id FROM versions))
    RETURNING job_id
), hidden AS (
    UPDATE jobs_job SET deleted_at = (SELECT gone.deleted_at FROM gone WHERE gone.id = jobs_job.workflow_id)
    WHERE id = ANY(ARRAY(SELECT job_id FROM tasks))
), emptied AS (
    DELETE FROM jobs_workflow WHERE id = ANY(ARRAY(
        SELECT workflow_id FROM versions EXCEPT
        SELECT workflow_id FROM jobs_workflowversion
        WHERE workflow_id = ANY(ARRAY(SELECT id FROM gone)) AND id <> ALL(ARRAY(SELECT id FROM versions))))
)
DELETE FROM jobs_workflowversion WHERE id = ANY(ARRAY(SELECT id FROM versions)) RETURNING id;
