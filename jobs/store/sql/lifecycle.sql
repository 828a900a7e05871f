-- name: lock_tenant
-- Keep dispatch away from this tenant until the transaction ends. Every action that changes whether a job may start
-- takes this lock first, so that nothing starts after the action was acknowledged.
-- locks: the tenant's row, waits (request)
-- returns: id
SELECT id FROM tenants_tenant WHERE id = %(tenant_id)s FOR NO KEY UPDATE;

-- name: weigh
-- How many unfinished triggers each of these jobs has, counted up to %(most)s: a statement below would write these.
-- index: trigger_unfinished_by_job
-- returns: id, triggers
SELECT w.id, (SELECT count(*) FROM (
    SELECT FROM jobs_trigger t
    WHERE t.job_id = w.id AND t.phase IN ('pending', 'retrying', 'in_flight')
    LIMIT %(most)s) u) AS triggers
FROM unnest(%(job_ids)s::uuid[]) AS w(id);

-- name: hand_back_jobs
-- Spend the fence of jobs' queued triggers; their messages are dead from here on.
-- transition: queued -> pending
-- locks: trigger rows, waits (request)
-- index: trigger_unfinished_by_job
-- returns: id, tenant_id, job_type
UPDATE jobs_trigger SET state = 'pending', queued_at = NULL
WHERE job_id = ANY(%(job_ids)s::uuid[]) AND phase = 'in_flight' AND state = 'queued'
RETURNING id, tenant_id, job_type;

-- name: hold_jobs
-- Take paused jobs' waiting triggers out of the dispatcher's sight, or (held = false) put them back.
-- locks: trigger rows, waits (request)
-- index: trigger_unfinished_by_job
UPDATE jobs_trigger SET held = %(held)s, parked = parked AND %(held)s,
                        parked_until = CASE WHEN %(held)s THEN parked_until END
WHERE job_id = ANY(%(job_ids)s::uuid[]) AND phase IN ('pending', 'retrying') AND held <> %(held)s;

-- name: paused_since
-- When these jobs were paused: the beginning of the last unbroken stretch of paused entries on their timeline. If the
-- timeline does not tell (it was purged, or is not kept), the job's creation.
-- index: jobversion_of_job, primary key
-- returns: id, paused_at
SELECT w.id, coalesce(job.began_at, job.created_at) AS paused_at
FROM unnest(%(job_ids)s::uuid[]) AS w(id), LATERAL (
    SELECT created_at, (
        SELECT v.valid_from FROM jobs_jobversion v
        WHERE v.job_id = w.id AND v.status = 'paused' AND v.valid_from >= (
            SELECT u.valid_from FROM jobs_jobversion u
            WHERE u.job_id = w.id AND u.status <> 'paused' ORDER BY u.valid_from DESC LIMIT 1)
        ORDER BY v.valid_from LIMIT 1) AS began_at
    FROM jobs_job WHERE id = w.id OFFSET 0) job;

-- name: skip_paused
-- Skip firings that fell due while their jobs were paused (DESIGN §9, resume). A firing that fell due before the pause
-- is treated like any due firing. A firing that falls due later is not late. A firing that was tried before the pause
-- goes on.
-- transition: pending -> skipped
-- locks: trigger rows, waits (request)
-- index: trigger_unfinished_by_job
-- returns: id, tenant_id, job_type
UPDATE jobs_trigger t SET state = 'skipped', reason = 'paused', finished_at = carillon_clock(), held = false,
                          parked = false, parked_until = NULL
FROM unnest(%(job_ids)s::uuid[], %(paused_ats)s::timestamptz[], %(over_ats)s::timestamptz[])
     AS pause(job_id, paused_at, over_at)
WHERE t.job_id = ANY(%(job_ids)s::uuid[]) AND t.job_id = pause.job_id AND t.phase = 'pending' AND t.origin = 'schedule'
  AND t.attempt_count = 0 AND t.replay_count = 0 AND t.due_at BETWEEN pause.paused_at AND pause.over_at
RETURNING t.id, t.tenant_id, t.job_type;

-- name: withdraw_future
-- Remove firings that lie ahead, after an edit or new rules of a time zone: they are no longer expected.
-- locks: trigger rows, waits (request)
-- index: trigger_unfinished_by_job
-- returns: id, tenant_id, job_type
DELETE FROM jobs_trigger
WHERE job_id = ANY(%(job_ids)s::uuid[]) AND phase = 'pending' AND origin = 'schedule' AND attempt_count = 0 AND replay_count = 0
  AND scheduled_for > %(now)s
RETURNING id, tenant_id, job_type;

-- name: restamp
-- After edits, hand triggers that are due already over to the jobs' new versions. Triggers that are still queued are so
-- after a change of name.
-- locks: trigger rows, waits (request)
-- index: trigger_unfinished_by_job
UPDATE jobs_trigger t SET job_version = edit.version, priority = edit.priority, job_type = edit.job_type
FROM unnest(%(job_ids)s::uuid[], %(versions)s::int[], %(priorities)s::smallint[], %(job_types)s::text[])
     AS edit(job_id, version, priority, job_type)
WHERE t.job_id = ANY(%(job_ids)s::uuid[]) AND t.job_id = edit.job_id
  AND t.phase IN ('pending', 'retrying', 'in_flight') AND t.state <> 'running';

-- name: cancel_jobs
-- Cancel jobs' waiting triggers and ask their running ones to stop: their workers learn it with the next renewal. This
-- is one statement, so that a trigger on its way between running and retrying cannot slip through.
-- transition: pending, retrying, queued -> cancelled
-- locks: trigger rows, waits (request)
-- index: trigger_unfinished_by_job
-- returns: id, tenant_id, job_type, state
UPDATE jobs_trigger SET
    cancel_requested = state = 'running',
    finished_at = CASE WHEN state = 'running' THEN NULL ELSE carillon_clock() END,
    cancel_reason = CASE WHEN state = 'running' THEN 'job_cancelled' ELSE '' END,
    reason = CASE WHEN state = 'running' THEN '' ELSE 'job_cancelled' END,
    state = CASE WHEN state = 'running' THEN 'running' ELSE 'cancelled' END,
    held = false, parked = false, parked_until = NULL
WHERE job_id = ANY(%(job_ids)s::uuid[]) AND phase IN ('pending', 'retrying', 'in_flight')
  AND state IN ('pending', 'retrying', 'queued', 'running')
RETURNING id, tenant_id, job_type, state;

-- name: cancel
-- Cancel waiting triggers by their ids, and ask running ones to stop, as in cancel_jobs.
-- transition: pending, retrying, queued -> cancelled
-- locks: trigger rows, waits (request)
-- index: primary key
-- returns: id, tenant_id, job_type, state, origin, fence, replay_count
UPDATE jobs_trigger SET
    cancel_requested = state = 'running',
    finished_at = CASE WHEN state = 'running' THEN NULL ELSE carillon_clock() END,
    cancel_reason = CASE WHEN state = 'running' THEN 'requested' ELSE '' END,
    reason = CASE WHEN state = 'running' THEN '' ELSE 'requested' END,
    state = CASE WHEN state = 'running' THEN 'running' ELSE 'cancelled' END,
    held = false, parked = false, parked_until = NULL
WHERE id = ANY(%(ids)s::uuid[]) AND tenant_id = %(tenant_id)s AND state IN ('pending', 'retrying', 'queued', 'running')
RETURNING id, tenant_id, job_type, state, origin, fence, replay_count;

-- name: replay
-- Send ended triggers through once more, as their job is now: fresh retry budget, same idempotency key. Triggers of a
-- job that was cancelled or deleted stay as they are. So do triggers of workflow runs, which are retried as a whole
-- (workflows.sql). From here on, the replayed triggers are part of the caller's trace.
-- transition: dead, succeeded, skipped, cancelled -> pending
-- locks: trigger rows, waits (request)
-- index: primary key
-- returns: id, tenant_id, job_type
UPDATE jobs_trigger t SET
    state = 'pending', reason = '', due_at = carillon_clock(), held = false, parked = false,
    parked_until = NULL, budget_start = t.attempt_count, crash_count = 0, replay_count = t.replay_count + 1, cancel_requested = false,
    cancel_reason = '', worker = '', progress = NULL, trace = %(trace)s,
    result = NULL, queued_at = NULL, started_at = NULL, finished_at = NULL,
    dismissed_at = NULL, dismissed_by = '', dismissed_note = '',
    job_version = j.version, job_type = j.job_type, priority = j.priority
FROM jobs_job j
WHERE t.id = ANY(%(ids)s::uuid[]) AND t.tenant_id = %(tenant_id)s
  AND t.state IN ('dead', 'succeeded', 'skipped', 'cancelled') AND t.workflow_run_id IS NULL
  AND j.id = t.job_id AND j.deleted_at IS NULL AND j.status <> 'cancelled'
RETURNING t.id, t.tenant_id, t.job_type;

-- name: dismiss
-- Take dead letters out of the lists and counts of dead letters, with a note. They stay dead, and may be replayed.
-- locks: trigger rows, waits (request)
-- index: primary key
-- returns: id
UPDATE jobs_trigger SET dismissed_at = carillon_clock(), dismissed_by = %(by)s, dismissed_note = %(note)s
WHERE id = ANY(%(ids)s::uuid[]) AND tenant_id = %(tenant_id)s AND state = 'dead' AND dismissed_at IS NULL
RETURNING id;
