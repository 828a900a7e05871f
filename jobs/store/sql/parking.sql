-- Triggers that may not start yet leave the dispatcher's sight (held), so that they cost it nothing and hide nothing.

-- name: hold
-- Take triggers of jobs that are not active out of the dispatcher's sight until resume.
-- locks: trigger rows, held by candidates
-- index: primary key
UPDATE jobs_trigger SET held = true
WHERE id = ANY(%(ids)s::uuid[]) AND state IN ('pending', 'retrying');

-- name: park
-- Take triggers that wait for another one, of their job or of its concurrency key, out of sight until release.
-- locks: trigger rows, held by candidates
-- index: primary key
-- plan: kept
UPDATE jobs_trigger SET held = true, parked = true, parked_for = ''
WHERE id = ANY(%(ids)s::uuid[]) AND state IN ('pending', 'retrying');

-- name: park_until
-- Take triggers that wait for their target's rate limit out of sight, each for its own time.
-- locks: trigger rows, held by candidates
-- index: primary key
-- plan: kept
UPDATE jobs_trigger t SET held = true, parked = true, parked_until = carillon_clock() + p.wait, parked_for = ''
FROM unnest(%(ids)s::uuid[], %(waits)s::interval[]) AS p(id, wait)
WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = p.id AND t.state IN ('pending', 'retrying');

-- name: unpark
-- Show dispatch again the triggers that have waited their time for a target.
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_parked_until
-- plan: kept
-- returns: id
UPDATE jobs_trigger SET held = false, parked = false, parked_until = NULL, parked_for = ''
WHERE id = ANY(ARRAY(
    SELECT id FROM jobs_trigger
    WHERE parked_until IS NOT NULL AND parked_until <= carillon_now()
    ORDER BY parked_until LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED)) AND parked_until IS NOT NULL
RETURNING id;

-- name: behind
-- The next %(limit)s jobs after %(after)s with triggers parked behind another one, of their job or of its concurrency
-- key, and the counts that keep these parked: facts for room_to_show of jobs.core.policies. Walks by id, so that many
-- busy jobs cannot hide the others.
-- index: trigger_parked, trigger_unfinished_by_job, workflowrun_running, primary key of jobs_job
-- plan: kept
-- returns: job_id, active, overlap_policy, max_concurrent, in_flight, retrying (0 or 1), in_sight (at most
-- max_concurrent); counts of triggers that are not parked; for a workflow's schedule, its running runs are in flight;
-- by job_id
WITH RECURSIVE step AS (
    (SELECT job_id, 1 AS nth FROM jobs_trigger
     WHERE parked AND parked_until IS NULL AND job_id > %(after)s::uuid ORDER BY job_id LIMIT 1)
    UNION ALL
    SELECT following.job_id, step.nth + 1 FROM step, LATERAL (
        SELECT job_id FROM jobs_trigger t
        WHERE t.parked AND t.parked_until IS NULL AND t.job_id > step.job_id ORDER BY t.job_id LIMIT 1) following
    WHERE step.nth < %(limit)s
)
SELECT step.job_id, j.status IN ('active', 'completed') AS active, j.overlap_policy, j.max_concurrent,
       other.in_flight + CASE j.job_type WHEN 'carillon.workflow' THEN carillon_running_runs(j.workflow_id) ELSE 0 END
           AS in_flight,
       other.retrying, other.in_sight
FROM step, LATERAL (
    SELECT status, overlap_policy, max_concurrent, job_type, workflow_id FROM jobs_job
    WHERE id = step.job_id OFFSET 0) j, LATERAL (
    -- BETWEEN, as in facts of dispatch.sql.
    SELECT (SELECT count(*) FROM jobs_trigger t
            WHERE t.job_id = step.job_id AND t.phase IN ('pending', 'retrying', 'in_flight')
              AND t.phase BETWEEN 'in_flight' AND 'in_flight') AS in_flight,
           (SELECT count(*) FROM (
               SELECT FROM jobs_trigger t
               WHERE t.job_id = step.job_id AND t.phase IN ('pending', 'retrying', 'in_flight')
                 AND t.phase BETWEEN 'retrying' AND 'retrying' AND NOT t.held
               LIMIT 1) r) AS retrying,
           (SELECT count(*) FROM (
               SELECT FROM jobs_trigger t
               WHERE t.job_id = step.job_id AND t.phase = 'pending' AND NOT t.held AND t.due_at <= carillon_now()
               LIMIT j.max_concurrent) s) AS in_sight
    OFFSET 0) other
ORDER BY step.nth;

-- name: show
-- Show dispatch again some of each job's triggers that are parked behind another one: as many as there is room for, the
-- oldest first, as far as their concurrency key has room now.
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_parked, trigger_key_in_flight, primary key
-- returns: id
WITH oldest AS MATERIALIZED (
    SELECT t.id, t.due_at, j.tenant_id, j.concurrency_key, j.max_concurrent
    FROM unnest(%(job_ids)s::uuid[], %(rooms)s::int[]) AS w(job_id, room), LATERAL (
        SELECT tenant_id, max_concurrent, concurrency_key FROM jobs_job WHERE id = w.job_id OFFSET 0) j, LATERAL (
        SELECT id, due_at FROM jobs_trigger waiting
        WHERE waiting.job_id = w.job_id AND waiting.parked AND waiting.parked_until IS NULL
        ORDER BY waiting.scheduled_for LIMIT w.room) t
), key_load AS MATERIALIZED (
    SELECT tenant_id, concurrency_key, (
        SELECT count(*) FROM jobs_trigger k
        WHERE k.tenant_id = oldest.tenant_id AND k.concurrency_key = oldest.concurrency_key AND k.concurrency_key <> ''
          AND k.phase = 'in_flight') AS in_flight
    FROM oldest WHERE concurrency_key <> '' GROUP BY tenant_id, concurrency_key
), fit AS MATERIALIZED (
    SELECT id, in_flight IS NULL OR max_concurrent - in_flight >= row_number() OVER (
               PARTITION BY tenant_id, concurrency_key ORDER BY due_at, id) AS fits
    FROM oldest LEFT JOIN key_load USING (tenant_id, concurrency_key)
), free AS MATERIALIZED (
    SELECT id FROM jobs_trigger WHERE id = ANY(ARRAY(SELECT id FROM fit WHERE fits)) AND parked
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs_trigger SET held = false, parked = false
WHERE id = ANY(ARRAY(SELECT id FROM free)) AND parked
RETURNING id;

-- name: collapse
-- At most one trigger of a collapsing job waits: the newest. Triggers parked before the given ones give way to them.
-- transition: pending -> skipped
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_parked
-- returns: id, reason, tenant_id, job_type
UPDATE jobs_trigger t SET
    state = 'skipped', reason = 'collapsed', finished_at = carillon_clock(), held = false, parked = false,
    parked_until = NULL
WHERE t.parked AND t.state = 'pending' AND t.id = ANY(ARRAY(
    SELECT waits.id
    FROM unnest(%(job_ids)s::uuid[], %(scheduled_fors)s::timestamptz[]) AS newest(job_id, scheduled_for), LATERAL (
        SELECT id FROM jobs_trigger t
        WHERE t.job_id = newest.job_id AND t.parked AND t.state = 'pending'
          AND t.scheduled_for < newest.scheduled_for AND t.origin = 'schedule' AND t.replay_count = 0
        FOR NO KEY UPDATE SKIP LOCKED) waits))
RETURNING t.id, t.reason, t.tenant_id, t.job_type;

-- name: replace
-- Make way for the given triggers: cancel the other waiting triggers of their jobs, and ask running ones to stop. If
-- one of these is locked, the given trigger stays visible to dispatch, which tries again.
-- transition: pending, retrying, queued -> cancelled
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_unfinished_by_job
-- returns: id, state, tenant_id, job_type
WITH other AS MATERIALIZED (
    SELECT id, job_id FROM jobs_trigger
    WHERE job_id = ANY(%(job_ids)s::uuid[]) AND id <> ALL(%(ids)s::uuid[])
      AND (phase = 'in_flight' AND state IN ('queued', 'running') OR phase = 'retrying' OR phase = 'pending' AND parked)
), free AS MATERIALIZED (
    SELECT id FROM jobs_trigger WHERE id = ANY(ARRAY(SELECT id FROM other)) FOR NO KEY UPDATE SKIP LOCKED
), kept_in_sight AS (
    UPDATE jobs_trigger SET held = false, parked = false
    WHERE id = ANY(%(ids)s::uuid[]) AND parked
      AND job_id IN (SELECT job_id FROM other WHERE id NOT IN (SELECT id FROM free))
)
UPDATE jobs_trigger SET
    cancel_requested = state = 'running',
    cancel_reason = CASE WHEN state = 'running' THEN 'preempted' ELSE '' END,
    finished_at = CASE WHEN state = 'running' THEN NULL ELSE carillon_clock() END,
    reason = CASE WHEN state = 'running' THEN '' ELSE 'superseded' END,
    state = CASE WHEN state = 'running' THEN 'running' ELSE 'cancelled' END,
    held = false, parked = false, parked_until = NULL
WHERE id = ANY(ARRAY(SELECT id FROM free))
  AND (phase = 'in_flight' AND state IN ('queued', 'running') OR phase = 'retrying' OR phase = 'pending' AND parked)
RETURNING id, state, tenant_id, job_type;

-- name: replace_runs
-- Make way for firings of workflows' schedules: insert due cancels, due at once, for the running runs of these
-- workflows. A beat cancels them (workflows.sql: due_cancels), under the runs' locks, for which dispatch must not wait.
-- locks: due cancels of these runs, in the order of their ids, lock_timeout
-- index: primary key of jobs_job, workflowrun_running
INSERT INTO jobs_duecancel AS due (run_id, tenant_id, at, reason)
SELECT r.id, r.tenant_id, carillon_clock(), 'replaced'
FROM unnest(%(job_ids)s::uuid[]) AS w(job_id), LATERAL (
    SELECT workflow_id FROM jobs_job WHERE id = w.job_id OFFSET 0) j, LATERAL (
    SELECT id, tenant_id FROM jobs_workflowrun WHERE workflow_id = j.workflow_id AND state = 'running' OFFSET 0) r
ORDER BY r.id
ON CONFLICT (run_id) DO UPDATE SET at = least(due.at, excluded.at), reason = excluded.reason;
