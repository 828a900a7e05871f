-- name: take_due
-- Jobs whose next instant enters the look-ahead window, locked until the transaction ends. Another beat takes other
-- jobs. With %(ids)s, only these jobs; without %(zoned)s, only jobs whose instants no time zone decides (zones.sql).
-- Returns none once the term is over. Jobs of suspended tenants wait: their missed firings are decided when they go on.
-- locks: job rows, SKIP LOCKED
-- index: job_next_fire, or the primary key
-- plan: kept
-- returns: the columns that a schedule and its misfire policy need, since when a firing without jitter is on time, and
-- the window's end
SELECT id, tenant_id, job_type, priority, version, schedule_type, cron_expression, timezone, "interval", run_at,
       starts_at, ends_at, dst_policy, cron_dialect, jitter, created_at, next_fire_at, misfire_policy, catchup_window,
       max_catchup, carillon_now() - misfire_grace AS on_time_since,
       carillon_now() + %(look_ahead)s::interval AS window_end
FROM jobs_job
WHERE status = 'active' AND next_fire_at IS NOT NULL AND next_fire_at <= carillon_now() + %(look_ahead)s::interval
  AND tenant_id <> ALL(ARRAY(SELECT id FROM tenants_tenant WHERE status = 'suspended'))
  AND (%(zoned)s::boolean OR schedule_type <> 'cron' OR timezone = 'UTC')
  AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s::uuid[]))
  AND (%(term)s::bigint IS NULL OR EXISTS (
       SELECT 1 FROM jobs_lease WHERE name = 'leader' AND term = %(term)s AND expires_at > carillon_clock()))
ORDER BY next_fire_at
LIMIT %(limit)s
FOR NO KEY UPDATE SKIP LOCKED;

-- name: peek_due
-- A backlog of jobs that take_due would give, and some jobs whose next instant has only just passed, which a backlog
-- would hide. Nothing is locked.
-- index: job_next_fire
-- returns: the columns that a schedule needs, and the present time
(SELECT id, schedule_type, cron_expression, timezone, "interval", run_at, starts_at, ends_at, dst_policy, cron_dialect,
        created_at, next_fire_at, carillon_now() AS now
 FROM jobs_job
 WHERE status = 'active' AND next_fire_at IS NOT NULL AND next_fire_at <= carillon_now() + %(look_ahead)s
   AND tenant_id <> ALL(ARRAY(SELECT id FROM tenants_tenant WHERE status = 'suspended'))
 ORDER BY next_fire_at LIMIT %(limit)s)
UNION ALL
(SELECT id, schedule_type, cron_expression, timezone, "interval", run_at, starts_at, ends_at, dst_policy, cron_dialect,
        created_at, next_fire_at, carillon_now() AS now
 FROM jobs_job
 WHERE status = 'active' AND next_fire_at IS NOT NULL AND next_fire_at <= carillon_now() + %(look_ahead)s
   AND next_fire_at > carillon_now() - interval '10 seconds'
   AND tenant_id <> ALL(ARRAY(SELECT id FROM tenants_tenant WHERE status = 'suspended'))
 ORDER BY next_fire_at LIMIT %(fresh)s);

-- name: materialize
-- Insert the firings as triggers; a firing that already has its trigger is left alone. ``traces`` is empty if no firing
-- has one.
-- transition: - -> pending
-- plan: kept
-- returns: ids of the new triggers
INSERT INTO jobs_trigger (
    id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason, held, priority,
    idempotency_key, trace, fence, attempt_count, budget_start, crash_count, replay_count, worker, cancel_requested,
    created_at, announced_at)
SELECT f.id, f.job_id, f.tenant_id, f.job_type, f.job_version, f.origin, f.scheduled_for, f.due_at, 'pending', '', false,
       f.priority, f.idempotency_key, f.trace, 0, 0, 0, 0, 0, '', false, carillon_clock(),
       CASE WHEN %(announce)s::boolean THEN carillon_clock() END
FROM unnest(%(ids)s::uuid[], %(job_ids)s::uuid[], %(tenant_ids)s::bigint[], %(job_types)s::text[],
            %(job_versions)s::int[], %(origins)s::text[], %(scheduled_fors)s::timestamptz[], %(due_ats)s::timestamptz[],
            %(priorities)s::smallint[], %(idempotency_keys)s::text[], %(traces)s::text[])
     AS f(id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, priority, idempotency_key, trace)
ON CONFLICT (job_id, scheduled_for) DO NOTHING
RETURNING id;

-- name: advance
-- Advance each job's next instant, in the transaction that inserted the triggers before it.
-- locks: job rows, held by take_due
-- index: primary key
-- plan: kept
UPDATE jobs_job j SET next_fire_at = n.next_fire_at
FROM unnest(%(ids)s::uuid[], %(next_fire_ats)s::timestamptz[]) AS n(id, next_fire_at)
WHERE j.id = ANY(%(ids)s::uuid[]) AND j.id = n.id;

-- name: pause_broken
-- Pause a job whose schedule cannot be computed, with the reason. Such a job never stops the batch.
-- locks: the job's row, SKIP LOCKED
-- index: primary key
-- returns: id
UPDATE jobs_job SET status = 'paused', status_reason = left(%(reason)s, 500), updated_at = carillon_clock()
WHERE status = 'active'
  AND id = ANY(ARRAY(SELECT id FROM jobs_job WHERE id = %(id)s AND status = 'active' FOR NO KEY UPDATE SKIP LOCKED))
RETURNING id;

-- name: set_status
-- Set the status of jobs, each with its next instant and the time since when it has this status, under the caller's
-- locks. Jobs that end also get the time at which they are deleted.
-- locks: job rows, held by the action
-- index: primary key
-- returns: id, expires_at
UPDATE jobs_job j SET
    status = %(status)s, status_reason = %(reason)s, paused_until = %(paused_until)s, next_fire_at = n.next_fire_at,
    updated_at = n.updated_at,
    expires_at = CASE WHEN %(ended)s THEN carillon_clock() + coalesce(j.delete_after, %(keep_ended)s::interval) END
FROM unnest(%(ids)s::uuid[], %(next_fire_ats)s::timestamptz[], %(updated_ats)s::timestamptz[])
     AS n(id, next_fire_at, updated_at)
WHERE j.id = ANY(%(ids)s::uuid[]) AND j.id = n.id
RETURNING j.id, j.expires_at;

-- name: pauses_over
-- Jobs whose pause has reached the end that was set for it, the earliest end first, except jobs of the given tenants.
-- Nothing is locked.
-- index: job_paused_until
-- returns: id, tenant_id
SELECT id, tenant_id FROM jobs_job
WHERE paused_until IS NOT NULL AND paused_until <= carillon_now() AND tenant_id <> ALL(%(but)s::bigint[])
ORDER BY paused_until LIMIT %(limit)s;

-- name: hold_paused
-- Those of these jobs whose pause is still over, locked until the transaction ends. Jobs that another action or beat
-- has locked are left to it.
-- locks: job rows, SKIP LOCKED
-- index: primary key
-- returns: id
SELECT id FROM jobs_job
WHERE id = ANY(%(ids)s::uuid[]) AND paused_until IS NOT NULL AND paused_until <= carillon_clock()
ORDER BY id
FOR NO KEY UPDATE SKIP LOCKED;

-- name: end_of_pause_refused
-- A job that cannot be resumed, because its schedule can no longer be computed, stays paused for that reason.
-- locks: job rows, held by the caller
-- index: primary key
UPDATE jobs_job SET paused_until = NULL, status_reason = left(%(reason)s, 500) WHERE id = %(id)s;

-- name: note_versions
-- Add the jobs' present schedule and status to their timeline, from the moment they were changed. Code that changes
-- either sets updated_at to the clock it decided by, and calls this in the same transaction.
-- index: primary key
INSERT INTO jobs_jobversion (id, job_id, tenant_id, version, status, schedule, valid_from)
SELECT gen_random_uuid(), id, tenant_id, version, status, carillon_schedule(job), updated_at
FROM jobs_job job WHERE id = ANY(%(ids)s::uuid[]);

-- name: insert
-- Write new jobs, each with the first entry of its timeline (of workflows' hidden jobs, only those that are schedules).
-- Also write the triggers of jobs that fire at once, announced to dispatchers: no beat materializes them. A job whose
-- name a living job already has is left out. %(common)s holds the columns that are the same for all these jobs: most
-- are, and reading JSON is a third of the cost of a job. The audit trail learns the actor from the statement itself, so
-- that the statement can be prepared: parsing and planning it take twice as long as executing it.
-- transition: - -> pending
-- index: job_name_unique_among_living
-- returns: ids of those written
WITH signed AS MATERIALIZED (
    SELECT CASE WHEN %(actor)s::text <> '' THEN set_config('carillon.actor', %(actor)s::text, true) END
), given AS MATERIALIZED (
    SELECT job.*, carillon_schedule(job) AS schedule
    FROM jsonb_populate_recordset(
        jsonb_populate_record(NULL::jobs_job, %(common)s::jsonb), %(rows)s::jsonb) AS job
), written AS (
    INSERT INTO jobs_job (
        id, tenant_id, name, labels, job_type, payload, target, schedule_type, cron_expression, cron_dialect, timezone,
        "interval", run_at, starts_at, ends_at, dst_policy, jitter, priority, timeout, delivery, retry_policy,
        overlap_policy, max_concurrent, concurrency_key, misfire_policy, misfire_grace, catchup_window, max_catchup, status,
        status_reason, paused_until, notify, watched, pause_after_failures, delete_after, version, next_fire_at,
        created_at, updated_at, expires_at, deleted_at, workflow_id)
    SELECT id, tenant_id, name, labels, job_type, payload, target, schedule_type, cron_expression, cron_dialect, timezone,
           "interval", run_at, starts_at, ends_at, dst_policy, jitter, priority, timeout, delivery, retry_policy,
           overlap_policy, max_concurrent, concurrency_key, misfire_policy, misfire_grace, catchup_window, max_catchup,
           status, status_reason, paused_until, notify, watched, pause_after_failures, delete_after, version, next_fire_at,
           created_at, updated_at, expires_at, deleted_at, workflow_id
    FROM signed, given
    ON CONFLICT (tenant_id, name) WHERE deleted_at IS NULL DO NOTHING
    RETURNING id
), noted AS (
    INSERT INTO jobs_jobversion (id, job_id, tenant_id, version, status, schedule, valid_from)
    SELECT gen_random_uuid(), id, tenant_id, version, status, schedule, updated_at
    FROM given WHERE (workflow_id IS NULL OR job_type = 'carillon.workflow') AND id IN (SELECT id FROM written)
), fired AS (
    INSERT INTO jobs_trigger (
        id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason, held, priority,
        idempotency_key, trace, fence, attempt_count, budget_start, crash_count, replay_count, worker, cancel_requested,
        created_at, announced_at)
    SELECT f.id, f.job_id, j.tenant_id, j.job_type, j.version, f.origin, f.scheduled_for, f.due_at, 'pending',
           '', false, j.priority, f.idempotency_key, f.trace, 0, 0, 0, 0, 0, '', false, carillon_clock(),
           carillon_clock()
    FROM jsonb_to_recordset(%(firings)s::jsonb) AS f(
             id uuid, job_id uuid, origin text, scheduled_for timestamptz, due_at timestamptz, idempotency_key text,
             trace text)
    JOIN given j ON j.id = f.job_id
    WHERE f.job_id IN (SELECT id FROM written)
)
SELECT id FROM written;

-- name: edit
-- Write the columns that edits change: for each job those that its row names, and its next version. Columns that the
-- row does not name stay as they are stored: a large payload is not written again. The caller has locked the jobs.
-- locks: job rows, held by the caller
-- index: primary key
UPDATE jobs_job j SET
    name = CASE WHEN given ? 'name' THEN (job).name ELSE j.name END,
    labels = CASE WHEN given ? 'labels' THEN (job).labels ELSE j.labels END,
    job_type = CASE WHEN given ? 'job_type' THEN (job).job_type ELSE j.job_type END,
    payload = CASE WHEN given ? 'payload' THEN (job).payload ELSE j.payload END,
    target = CASE WHEN given ? 'target' THEN (job).target ELSE j.target END,
    schedule_type = CASE WHEN given ? 'schedule_type' THEN (job).schedule_type ELSE j.schedule_type END,
    cron_expression = CASE WHEN given ? 'cron_expression' THEN (job).cron_expression ELSE j.cron_expression END,
    cron_dialect = CASE WHEN given ? 'cron_dialect' THEN (job).cron_dialect ELSE j.cron_dialect END,
    timezone = CASE WHEN given ? 'timezone' THEN (job).timezone ELSE j.timezone END,
    "interval" = CASE WHEN given ? 'interval' THEN (job)."interval" ELSE j."interval" END,
    run_at = CASE WHEN given ? 'run_at' THEN (job).run_at ELSE j.run_at END,
    starts_at = CASE WHEN given ? 'starts_at' THEN (job).starts_at ELSE j.starts_at END,
    ends_at = CASE WHEN given ? 'ends_at' THEN (job).ends_at ELSE j.ends_at END,
    dst_policy = CASE WHEN given ? 'dst_policy' THEN (job).dst_policy ELSE j.dst_policy END,
    jitter = CASE WHEN given ? 'jitter' THEN (job).jitter ELSE j.jitter END,
    priority = CASE WHEN given ? 'priority' THEN (job).priority ELSE j.priority END,
    timeout = CASE WHEN given ? 'timeout' THEN (job).timeout ELSE j.timeout END,
    delivery = CASE WHEN given ? 'delivery' THEN (job).delivery ELSE j.delivery END,
    retry_policy = CASE WHEN given ? 'retry_policy' THEN (job).retry_policy ELSE j.retry_policy END,
    overlap_policy = CASE WHEN given ? 'overlap_policy' THEN (job).overlap_policy ELSE j.overlap_policy END,
    max_concurrent = CASE WHEN given ? 'max_concurrent' THEN (job).max_concurrent ELSE j.max_concurrent END,
    concurrency_key = CASE WHEN given ? 'concurrency_key' THEN (job).concurrency_key ELSE j.concurrency_key END,
    misfire_policy = CASE WHEN given ? 'misfire_policy' THEN (job).misfire_policy ELSE j.misfire_policy END,
    misfire_grace = CASE WHEN given ? 'misfire_grace' THEN (job).misfire_grace ELSE j.misfire_grace END,
    catchup_window = CASE WHEN given ? 'catchup_window' THEN (job).catchup_window ELSE j.catchup_window END,
    max_catchup = CASE WHEN given ? 'max_catchup' THEN (job).max_catchup ELSE j.max_catchup END,
    notify = CASE WHEN given ? 'notify' THEN (job).notify ELSE j.notify END,
    watched = CASE WHEN given ? 'watched' THEN (job).watched ELSE j.watched END,
    pause_after_failures = CASE WHEN given ? 'pause_after_failures' THEN (job).pause_after_failures ELSE j.pause_after_failures END,
    delete_after = CASE WHEN given ? 'delete_after' THEN (job).delete_after ELSE j.delete_after END,
    version = (job).version, next_fire_at = (job).next_fire_at, updated_at = (job).updated_at
FROM (SELECT given, jsonb_populate_record(NULL::jobs_job, given) AS job
      FROM jsonb_array_elements(%(rows)s::jsonb) AS given OFFSET 0) edits
WHERE j.id = (job).id;

-- name: before_creation
-- The facts that creating a job needs first: the time, the number of the tenant's living jobs, and whether the job type
-- is the tenant's own.
-- index: primary key of jobs_jobtally; pull_type_name_unique
-- returns: now, jobs, declared
SELECT carillon_clock() AS now,
       (SELECT coalesce(sum(jobs), 0)::bigint FROM jobs_jobtally WHERE tenant_id = %(tenant_id)s) AS jobs,
       EXISTS (SELECT 1 FROM jobs_pulltype WHERE tenant_id = %(tenant_id)s AND name = %(job_type)s) AS declared;

-- name: living
-- How many living jobs a tenant has, neither ended nor deleted, read from the count that the table's triggers keep.
-- index: primary key of jobs_jobtally
-- returns: jobs
SELECT coalesce(sum(jobs), 0)::bigint AS jobs FROM jobs_jobtally WHERE tenant_id = %(tenant_id)s;

-- name: complete
-- Complete jobs with nothing left to materialize, nothing unfinished and nothing to catch up with. Walks by id from
-- %(after)s, so that many unfinished jobs cannot hide the finished ones.
-- locks: job rows, SKIP LOCKED
-- index: job_exhausted, trigger_unfinished_by_job, catchup_of_job
-- returns: id, and whether it was completed
WITH candidate AS (
    SELECT id FROM jobs_job
    WHERE status = 'active' AND next_fire_at IS NULL AND workflow_id IS NULL AND id > %(after)s::uuid
    ORDER BY id LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
), done AS (
    UPDATE jobs_job SET status = 'completed', updated_at = carillon_clock(),
           expires_at = carillon_clock() + coalesce(delete_after, %(keep_ended)s::interval)
    WHERE id = ANY(ARRAY(SELECT id FROM candidate))
      -- Not NOT EXISTS, which may become a join that reads every unfinished trigger.
      AND (SELECT t.id FROM jobs_trigger t
           WHERE t.job_id = jobs_job.id AND t.phase IN ('pending', 'retrying', 'in_flight') LIMIT 1) IS NULL
      AND (SELECT c.id FROM jobs_catchup c WHERE c.job_id = jobs_job.id AND c.finished_at IS NULL LIMIT 1) IS NULL
    RETURNING id
)
SELECT candidate.id, done.id IS NOT NULL AS completed FROM candidate LEFT JOIN done USING (id) ORDER BY candidate.id;

-- name: expire
-- Delete ended jobs whose time is over, the earliest first. A job with a firing under way, or due by hand, is looked at
-- again after %(again)s, so that it does not block other jobs meanwhile.
-- locks: job rows, SKIP LOCKED
-- index: job_expires, trigger_unfinished_by_job
-- returns: id, and whether it was deleted
WITH candidate AS (
    SELECT id, (SELECT t.id FROM jobs_trigger t
                WHERE t.job_id = jobs_job.id AND t.phase IN ('pending', 'retrying', 'in_flight') LIMIT 1) IS NULL AS idle
    FROM jobs_job
    WHERE expires_at <= carillon_now() AND deleted_at IS NULL
    ORDER BY expires_at LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs_job j SET
    deleted_at = CASE WHEN idle THEN carillon_clock() END,
    updated_at = CASE WHEN idle THEN carillon_clock() ELSE j.updated_at END,
    expires_at = CASE WHEN idle THEN j.expires_at ELSE carillon_clock() + %(again)s::interval END
FROM candidate WHERE j.id = ANY(ARRAY(SELECT id FROM candidate)) AND j.id = candidate.id
RETURNING j.id, idle AS deleted;

-- name: purge
-- Drop jobs that were deleted before the retention began, the earliest first, with their timelines. A job that still
-- has history is left, and looked at again when the walk begins again; so is a job that a version of a workflow refers
-- to.
-- locks: job rows, SKIP LOCKED
-- index: job_deleted, trigger_one_per_firing, catchup_of_job, skippedrange_of_job, jobversion_of_job
-- returns: when the last job looked at was deleted (deleted_at), how many were looked at and how many were dropped
WITH page AS MATERIALIZED (
    SELECT id, deleted_at FROM jobs_job
    WHERE deleted_at IS NOT NULL AND deleted_at > %(after)s AND deleted_at < carillon_now() - %(retention)s
    ORDER BY deleted_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), gone AS MATERIALIZED (
    SELECT id FROM page
    WHERE (SELECT t.id FROM jobs_trigger t WHERE t.job_id = page.id LIMIT 1) IS NULL
      AND (SELECT c.id FROM jobs_catchup c WHERE c.job_id = page.id LIMIT 1) IS NULL
      AND (SELECT r.id FROM jobs_skippedrange r WHERE r.job_id = page.id LIMIT 1) IS NULL
      AND (SELECT t.number FROM jobs_workflowtask t WHERE t.job_id = page.id LIMIT 1) IS NULL
), timelines AS (
    DELETE FROM jobs_jobversion WHERE job_id = ANY(ARRAY(SELECT id FROM gone))
), dropped AS (
    DELETE FROM jobs_job WHERE id = ANY(ARRAY(SELECT id FROM gone)) RETURNING id
)
SELECT (SELECT max(deleted_at) FROM page) AS deleted_at, (SELECT count(*) FROM page) AS looked_at,
       (SELECT count(*) FROM dropped) AS dropped;
