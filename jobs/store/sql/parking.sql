-- Triggers that may not start yet leave the dispatcher's sight (held), so that they cost it nothing and hide nothing.

-- name: hold
-- Take triggers of jobs that are not active out of the dispatcher's sight until resume.
-- index: primary key
UPDATE jobs_trigger SET held = true
WHERE id = ANY(%(ids)s::uuid[]) AND state IN ('pending', 'retrying');

-- name: park
-- Take triggers that wait for another one, of their job or of its concurrency key, out of sight until release.
-- index: primary key
UPDATE jobs_trigger SET held = true, parked = true
WHERE id = ANY(%(ids)s::uuid[]) AND state IN ('pending', 'retrying');

-- name: park_until
-- Take triggers that wait for their target's rate limit out of sight, each for its own time.
-- index: primary key
UPDATE jobs_trigger t SET held = true, parked = true, parked_until = carillon_clock() + p.wait
FROM unnest(%(ids)s::uuid[], %(waits)s::interval[]) AS p(id, wait)
WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = p.id AND t.state IN ('pending', 'retrying');

-- name: unpark
-- Show dispatch again what has waited its time for a target.
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_parked_until
-- returns: id
UPDATE jobs_trigger SET held = false, parked = false, parked_until = NULL
WHERE id = ANY(ARRAY(
    SELECT id FROM jobs_trigger
    WHERE parked_until IS NOT NULL AND parked_until <= carillon_now()
    ORDER BY parked_until LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED)) AND parked_until IS NOT NULL
RETURNING id;

-- name: release
-- Show dispatch again what was parked behind another trigger, of its job or of its concurrency key, oldest first, where
-- there is room now. Walks the jobs from %(after)s, so that a crowd of busy ones cannot hide the others.
-- index: trigger_parked, trigger_unfinished_of_job, trigger_key_in_flight
-- returns: the last job looked at, or no row when none is left
WITH RECURSIVE step AS (
    (SELECT job_id, 1 AS nth FROM jobs_trigger
     WHERE parked AND parked_until IS NULL AND job_id > %(after)s::uuid ORDER BY job_id LIMIT 1)
    UNION ALL
    SELECT following.job_id, step.nth + 1 FROM step, LATERAL (
        SELECT job_id FROM jobs_trigger t
        WHERE t.parked AND t.parked_until IS NULL AND t.job_id > step.job_id ORDER BY t.job_id LIMIT 1) following
    WHERE step.nth < %(limit)s
), oldest AS MATERIALIZED (
    SELECT t.id, t.due_at, j.tenant_id, j.concurrency_key, j.max_concurrent FROM step, LATERAL (
        SELECT tenant_id, status, overlap_policy, max_concurrent, concurrency_key
        FROM jobs_job WHERE id = step.job_id OFFSET 0) j, LATERAL (
        SELECT count(*) AS n FROM jobs_trigger other
        WHERE other.job_id = step.job_id AND NOT other.parked
          AND (other.phase = 'in_flight' OR other.phase = 'retrying' AND j.overlap_policy <> 'allow'
               -- What is in dispatch's sight already goes first.
               OR other.phase = 'pending' AND NOT other.held AND other.due_at <= carillon_now())) busy, LATERAL (
        SELECT id, due_at FROM jobs_trigger waiting
        WHERE waiting.job_id = step.job_id AND waiting.parked AND waiting.parked_until IS NULL
        ORDER BY waiting.scheduled_for
        LIMIT greatest(0, CASE j.overlap_policy WHEN 'allow' THEN j.max_concurrent ELSE 1 END - busy.n)) t
    WHERE j.status IN ('active', 'completed')
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
), released AS (
    UPDATE jobs_trigger SET held = false, parked = false
    WHERE id = ANY(ARRAY(SELECT id FROM fit WHERE fits)) AND parked
)
SELECT job_id FROM step ORDER BY nth DESC LIMIT 1;

-- name: collapse
-- At most one trigger of a collapsing job waits: the newest. What was parked before the given ones gives way to them.
-- transition: pending -> skipped
-- index: trigger_parked
-- returns: id, reason
UPDATE jobs_trigger t SET
    state = 'skipped', reason = 'collapsed', finished_at = carillon_clock(), held = false, parked = false,
    parked_until = NULL
FROM unnest(%(job_ids)s::uuid[], %(scheduled_fors)s::timestamptz[]) AS newest(job_id, scheduled_for)
WHERE t.job_id = ANY(%(job_ids)s::uuid[]) AND t.job_id = newest.job_id AND t.parked AND t.state = 'pending'
  AND t.scheduled_for < newest.scheduled_for AND t.origin = 'schedule' AND t.replay_count = 0
RETURNING t.id, t.reason;

-- name: replace
-- Make way for the given triggers: other ones of their jobs that wait are cancelled, running ones are asked to stop.
-- transition: pending, retrying, queued -> cancelled
-- index: trigger_unfinished_of_job
-- returns: id, state
UPDATE jobs_trigger SET
    cancel_requested = state = 'running',
    cancel_reason = CASE WHEN state = 'running' THEN 'preempted' ELSE '' END,
    finished_at = CASE WHEN state = 'running' THEN NULL ELSE carillon_clock() END,
    reason = CASE WHEN state = 'running' THEN '' ELSE 'superseded' END,
    state = CASE WHEN state = 'running' THEN 'running' ELSE 'cancelled' END,
    held = false, parked = false, parked_until = NULL
WHERE job_id = ANY(%(job_ids)s::uuid[]) AND id <> ALL(%(ids)s::uuid[])
  AND (phase = 'in_flight' AND state IN ('queued', 'running') OR phase = 'retrying' OR phase = 'pending' AND parked)
RETURNING id, state;
