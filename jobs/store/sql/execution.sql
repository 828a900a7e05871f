-- These statements stay fast while statistics are old, as they are whenever load rises (make bench NAME=throughput).
-- ``CASE t.state WHEN …`` keeps the planner from taking a partial index on the state, where it would read every queued
-- trigger to find a hundred. ``LATERAL … OFFSET 0`` keeps it from turning lookups by key into scans.

-- name: claim
-- Take the triggers of a batch of messages: those that are still queued under the message's fence, of a type that the
-- message is for, of a job that may run under the version they were dispatched for. The others stay untouched: they
-- belong to the dispatch that queued them again. A trigger keeps its type for as long as its fence, so a message that
-- names triggers of another type is forged: only the handler of their own type gets them. Work of tenants that crowd
-- this process is also left to others: all work of %(crowded)s, and of %(waiting)s the work that may be started only
-- once. Nothing is claimed while dispatch is stopped, or while operators have paused the type or the target. Triggers
-- that the breaker of a tenant's target does not let through are not claimed either. A run with a payload of its own
-- may call another target: its call is counted only if it is the probe.
-- transition: queued -> running
-- locks: trigger rows, waits (worker)
-- index: primary key, queue_paused
-- plan: kept
-- returns: everything a handler needs, one row an attempt; created and queued: seconds since 1970, which take a tenth
-- of an instant's time to read and are rarely needed; workflow: filled by store.workflows.flow if it is a task
WITH fit AS MATERIALIZED (
    SELECT w.*, job.version, job.name AS job_name, coalesce(t.payload, job.payload) AS payload, job.timeout,
           job.retry_policy, job.delivery, tenant.slug AS tenant, tenant.webhook_secret,
           t.job_type = ANY(tenant.disabled_types) AS switched_off,
           tenant.all_events OR tenant.watched OR job.watched AS watched,
           CASE WHEN tenant.circuit_breaker AND (t.payload IS NULL OR EXISTS (
                    SELECT FROM jobs_breaker b
                    WHERE b.tenant_id = t.tenant_id AND b.target = job.target AND b.probe_id = w.id))
                THEN job.target ELSE '' END AS guarded_target
    FROM unnest(%(ids)s::uuid[], %(fences)s::int[], %(attempt_ids)s::uuid[]) AS w(id, fence, attempt_id),
        LATERAL (SELECT job_id, tenant_id, payload, job_type FROM jobs_trigger WHERE id = w.id OFFSET 0) t,
        LATERAL (SELECT version, status, deleted_at, name, payload, timeout, retry_policy, delivery, watched, target
                 FROM jobs_job WHERE id = t.job_id OFFSET 0) job,
        LATERAL (SELECT slug, status, webhook_secret, disabled_types, all_events, watched, circuit_breaker
                 FROM tenants_tenant WHERE id = t.tenant_id OFFSET 0) tenant
    WHERE t.job_type = ANY(%(job_types)s::text[])
      AND job.status IN ('active', 'completed') AND job.deleted_at IS NULL AND tenant.status = 'active'
      AND tenant.slug <> ALL(%(crowded)s::text[])
      AND NOT (tenant.slug = ANY(%(waiting)s::text[]) AND job.delivery = 'at_most_once')
      AND t.job_type <> ALL(ARRAY(SELECT job_type FROM jobs_queue WHERE paused_at IS NOT NULL))
      AND NOT EXISTS (SELECT FROM jobs_installation WHERE id = 1 AND stopped_at IS NOT NULL)
      AND NOT (job.target <> '' AND job.target ~ ANY(ARRAY(
          SELECT regex::text FROM jobs_targetrule WHERE paused_at IS NOT NULL)))
      AND CASE WHEN tenant.circuit_breaker AND job.target <> '' THEN NOT EXISTS (
          SELECT FROM jobs_breaker b
          WHERE b.tenant_id = t.tenant_id AND b.target = job.target AND b.state <> 'closed'
            AND b.probe_id IS DISTINCT FROM w.id) ELSE true END
), claimed AS (
    UPDATE jobs_trigger t SET
        state = 'running', worker = %(worker)s, lease_expires_at = carillon_clock() + %(lease)s,
        attempt_count = t.attempt_count + 1, started_at = coalesce(t.started_at, carillon_clock())
    FROM fit
    WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = fit.id AND t.fence = fit.fence AND t.job_version = fit.version
      AND CASE t.state WHEN 'queued' THEN true END
    RETURNING t.id, t.fence, fit.attempt_id, t.job_id, t.job_type, t.tenant_id, t.scheduled_for, t.due_at, t.attempt_count,
        t.budget_start, t.crash_count, t.suspect, t.idempotency_key, t.checkpoint, t.trace, t.origin, t.replay_count,
        t.workflow_run_id, extract(epoch FROM t.created_at)::float AS created,
        extract(epoch FROM t.queued_at)::float AS queued,
        carillon_clock() - t.started_at AS elapsed, carillon_clock() AS attempt_started_at, fit.tenant,
        fit.webhook_secret, fit.job_name, fit.payload, fit.timeout, fit.retry_policy, fit.delivery, fit.switched_off,
        fit.watched, fit.guarded_target
), attempt AS (
    INSERT INTO jobs_attempt (id, trigger_id, job_id, tenant_id, number, fence, worker, celery_task_id, state, started_at,
        error_code, error_class, error_message, traceback, response_excerpt, claimed_with)
    SELECT attempt_id, id, job_id, tenant_id, attempt_count, fence, %(worker)s, %(celery_task_id)s, 'started',
           attempt_started_at, '', '', '', '', '', (SELECT count(*) FROM claimed) - 1
    FROM claimed
)
SELECT *, NULL AS workflow FROM claimed;

-- name: adopt
-- The triggers that a claim took whose answer was lost, for the claim that is repeated. They run under the message's
-- fence, in the very attempts that the claim should have started. Their leases begin again.
-- transition: running -> running
-- locks: trigger rows, waits (worker)
-- index: primary key, jobs_attempt_trigger
-- returns: as claim
WITH ours AS MATERIALIZED (
    SELECT w.id, w.fence, w.attempt_id, a.started_at AS attempt_started_at
    FROM unnest(%(ids)s::uuid[], %(fences)s::int[], %(attempt_ids)s::uuid[]) AS w(id, fence, attempt_id),
        LATERAL (SELECT id, started_at, fence, state FROM jobs_attempt WHERE trigger_id = w.id OFFSET 0) a
    WHERE a.id = w.attempt_id AND a.fence = w.fence AND a.state = 'started'
), kept AS (
    UPDATE jobs_trigger t SET lease_expires_at = carillon_clock() + %(lease)s
    FROM ours
    WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = ours.id AND t.fence = ours.fence
      AND CASE t.state WHEN 'running' THEN true END
    RETURNING t.id, t.fence, ours.attempt_id, t.job_id, t.tenant_id, t.scheduled_for, t.due_at, t.attempt_count,
        t.budget_start, t.crash_count, t.suspect, t.idempotency_key, t.checkpoint, t.trace, t.origin, t.replay_count,
        t.workflow_run_id, extract(epoch FROM t.created_at)::float AS created,
        extract(epoch FROM t.queued_at)::float AS queued,
        carillon_clock() - t.started_at AS elapsed, ours.attempt_started_at, t.payload, t.job_type
)
SELECT kept.id, fence, attempt_id, job_id, kept.job_type, tenant_id, scheduled_for, due_at, attempt_count, budget_start,
       crash_count, suspect, idempotency_key, checkpoint, trace, origin, replay_count, workflow_run_id, created, queued,
       elapsed, attempt_started_at, tenant.slug AS tenant, tenant.webhook_secret,
       job.name AS job_name, coalesce(kept.payload, job.payload) AS payload, job.timeout, job.retry_policy, job.delivery,
       kept.job_type = ANY(tenant.disabled_types) AS switched_off,
       tenant.all_events OR tenant.watched OR job.watched AS watched,
       CASE WHEN tenant.circuit_breaker AND (kept.payload IS NULL OR EXISTS (
                SELECT FROM jobs_breaker b
                WHERE b.tenant_id = kept.tenant_id AND b.target = job.target AND b.probe_id = kept.id))
            THEN job.target ELSE '' END AS guarded_target,
       NULL AS workflow
FROM kept,
    LATERAL (SELECT name, payload, timeout, retry_policy, delivery, watched, target
             FROM jobs_job WHERE id = kept.job_id OFFSET 0) job,
    LATERAL (SELECT slug, webhook_secret, disabled_types, all_events, watched, circuit_breaker
             FROM tenants_tenant WHERE id = kept.tenant_id OFFSET 0) tenant;

-- name: hand_back
-- Give back triggers queued under the message's fence that may not run: their job was paused, cancelled or edited, or
-- operators stopped dispatch or paused their type or target. The fence is spent, so the message is dead; dispatch
-- decides again. Triggers of a type that is not in ``job_types`` (null: every type is) are left alone: the message was
-- never for them. Triggers that a crowded process leaves alone are parked, so that they do not come back at once.
-- transition: queued -> pending
-- locks: trigger rows, SKIP LOCKED: a locked one is left to reap_queued
-- index: primary key
-- returns: id, tenant_id, job_type
WITH free AS MATERIALIZED (
    SELECT id FROM jobs_trigger WHERE id = ANY(%(ids)s::uuid[]) FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs_trigger t SET
    state = 'pending', queued_at = NULL, held = w.crowded, parked = w.crowded,
    parked_until = CASE WHEN w.crowded THEN carillon_clock() + %(wait)s END, parked_for = ''
FROM (SELECT w.id, w.fence, tenant.slug = ANY(%(crowded)s::text[])
                            OR tenant.slug = ANY(%(waiting)s::text[]) AND job.delivery = 'at_most_once' AS crowded
      FROM unnest(%(ids)s::uuid[], %(fences)s::int[]) AS w(id, fence),
          LATERAL (SELECT job_id, tenant_id FROM jobs_trigger WHERE id = w.id OFFSET 0) of_it,
          LATERAL (SELECT slug FROM tenants_tenant WHERE id = of_it.tenant_id OFFSET 0) tenant,
          LATERAL (SELECT delivery FROM jobs_job WHERE id = of_it.job_id OFFSET 0) job) w
WHERE t.id = ANY(ARRAY(SELECT id FROM free)) AND t.id = w.id AND t.fence = w.fence
  AND CASE t.state WHEN 'queued' THEN coalesce(t.job_type = ANY(%(job_types)s::text[]), true) END
RETURNING t.id, t.tenant_id, t.job_type;

-- name: renew
-- Prolong the leases of all claimed triggers. A trigger that is not returned is no longer ours.
-- transition: running -> running
-- locks: trigger rows, waits (worker)
-- index: primary key
-- plan: kept
-- returns: id, cancel_requested
UPDATE jobs_trigger t SET lease_expires_at = carillon_clock() + %(lease)s
FROM unnest(%(ids)s::uuid[], %(fences)s::int[]) AS held(id, fence)
WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = held.id AND t.fence = held.fence AND CASE t.state WHEN 'running' THEN true END
RETURNING t.id, t.cancel_requested;

-- name: note_stopping
-- Note that the worker of these attempts was told to stop. If it is killed before it has ended them, that does not
-- count as a crash of theirs.
-- locks: trigger rows, waits (worker)
-- index: jobs_attempt_trigger
UPDATE jobs_attempt a SET error_code = 'stopping'
FROM unnest(%(ids)s::uuid[], %(fences)s::int[]) AS held(id, fence)
WHERE a.trigger_id = ANY(%(ids)s::uuid[]) AND a.trigger_id = held.id AND a.fence = held.fence AND a.state = 'started';

-- name: note_progress
-- Keep a running trigger's progress, or its checkpoint, under our fence.
-- locks: a trigger's row, waits (worker)
-- index: primary key
-- returns: id, or no row when the trigger is no longer ours
UPDATE jobs_trigger SET progress = coalesce(%(progress)s::jsonb, progress),
                        checkpoint = coalesce(%(checkpoint)s::jsonb, checkpoint)
WHERE id = %(id)s AND fence = %(fence)s AND CASE state WHEN 'running' THEN true END
RETURNING id;

-- name: finish
-- Write a group of outcomes. An outcome whose trigger has moved on changes only its own attempt, which is kept as
-- stale. A wish to cancel beats a wish to retry. An edit does not change running triggers: a retry takes the job's
-- present type and priority here, as dispatch takes its version and its payload.
-- transition: running -> succeeded
-- transition: running -> retrying
-- transition: running -> dead
-- transition: running -> cancelled
-- locks: rows of triggers and attempts, waits (worker)
-- index: primary key
-- plan: kept
-- returns: id and state of the triggers that were still ours, their places among those given, and the seconds of their
-- attempts
WITH outcome AS MATERIALIZED (
    -- An array may be empty if all its elements are.
    SELECT nth, id, fence, attempt_id, attempt_started_at, state, coalesce(reason, '') AS reason,
           coalesce(delay, interval '0') AS delay, result, attempt_state, coalesce(error_code, '') AS error_code,
           coalesce(error_class, '') AS error_class, coalesce(error_message, '') AS error_message,
           coalesce(traceback, '') AS traceback, http_status, coalesce(response_excerpt, '') AS response_excerpt,
           output
    FROM unnest(
        %(ids)s::uuid[], %(fences)s::int[], %(attempt_ids)s::uuid[], %(attempt_started_ats)s::timestamptz[],
        %(states)s::text[], %(reasons)s::text[], %(delays)s::interval[], %(results)s::jsonb[],
        %(attempt_states)s::text[], %(error_codes)s::text[], %(error_classes)s::text[], %(error_messages)s::text[],
        %(tracebacks)s::text[], %(http_statuses)s::smallint[], %(response_excerpts)s::text[],
        %(outputs)s::text[]) WITH ORDINALITY
        AS o(id, fence, attempt_id, attempt_started_at, state, reason, delay, result,
             attempt_state, error_code, error_class, error_message, traceback, http_status, response_excerpt, output, nth)
), moved AS (
    UPDATE jobs_trigger t SET
        state = CASE WHEN o.state = 'retrying' AND t.cancel_requested THEN 'cancelled' ELSE o.state END,
        reason = CASE WHEN o.state = 'cancelled' OR o.state = 'retrying' AND t.cancel_requested
                      THEN coalesce(nullif(t.cancel_reason, ''), 'requested') ELSE o.reason END,
        due_at = CASE WHEN o.state = 'retrying' THEN carillon_clock() + o.delay ELSE t.due_at END,
        finished_at = CASE WHEN o.state = 'retrying' AND NOT t.cancel_requested THEN NULL ELSE carillon_clock() END,
        job_type = CASE o.state WHEN 'retrying' THEN (SELECT job_type FROM jobs_job WHERE id = t.job_id) ELSE t.job_type END,
        priority = CASE o.state WHEN 'retrying' THEN (SELECT priority FROM jobs_job WHERE id = t.job_id) ELSE t.priority END,
        result = o.result, lease_expires_at = NULL
    FROM outcome o
    WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = o.id AND t.fence = o.fence AND CASE t.state WHEN 'running' THEN true END
    RETURNING t.id, t.state, o.nth, date_part('epoch', carillon_clock() - o.attempt_started_at) AS seconds
), attempt AS (
    UPDATE jobs_attempt a SET
        state = CASE WHEN o.id IN (SELECT id FROM moved) THEN o.attempt_state ELSE 'stale' END,
        finished_at = carillon_clock(), duration = carillon_clock() - a.started_at,
        error_code = o.error_code, error_class = o.error_class, error_message = o.error_message,
        traceback = o.traceback, http_status = o.http_status, response_excerpt = o.response_excerpt,
        output = coalesce(o.output, a.output)
    FROM outcome o
    -- The time span selects the partitions; a second array would be probed in every combination with the ids.
    WHERE a.id = ANY(%(attempt_ids)s::uuid[]) AND a.started_at BETWEEN %(first_started_at)s AND %(last_started_at)s
      AND a.id = o.attempt_id AND a.started_at = o.attempt_started_at AND a.state IN ('started', 'lost')
)
SELECT id, state, nth, seconds FROM moved;

-- name: succeed
-- As finish, for the success of a single trigger. Without arrays it takes a fifth less of the server's time, and of the
-- worker's.
-- transition: running -> succeeded
-- locks: rows of a trigger and its attempt, waits (worker)
-- index: primary key
-- plan: kept
-- returns: as finish
WITH moved AS (
    UPDATE jobs_trigger t SET
        state = 'succeeded', reason = '', finished_at = carillon_clock(), result = %(result)s::jsonb,
        lease_expires_at = NULL
    WHERE t.id = %(id)s AND t.fence = %(fence)s AND CASE t.state WHEN 'running' THEN true END
    RETURNING t.id, t.state, 1 AS nth, date_part('epoch', carillon_clock() - %(attempt_started_at)s) AS seconds
), attempt AS (
    UPDATE jobs_attempt a SET
        state = CASE WHEN EXISTS (SELECT FROM moved) THEN 'succeeded' ELSE 'stale' END,
        finished_at = carillon_clock(), duration = carillon_clock() - a.started_at,
        error_code = '', error_class = '', error_message = '', traceback = '',
        http_status = %(http_status)s::smallint, response_excerpt = %(response_excerpt)s,
        output = coalesce(%(output)s::text, a.output)
    WHERE a.id = %(attempt_id)s AND a.started_at = %(attempt_started_at)s AND a.state IN ('started', 'lost')
)
SELECT id, state, nth, seconds FROM moved;

-- name: pause_gone
-- The targets of these triggers say that they are gone for good (HTTP 410): pause their jobs with the reason. Do not
-- pause a job that was edited since the attempt was claimed. Do not pause it for a payload that only one run-now had:
-- the job's own target has not answered. Do not pause the job of a workflow's task, because it could not be resumed.
-- locks: job rows, waits (worker)
-- index: primary keys
-- returns: id
UPDATE jobs_job job SET status = 'paused', status_reason = 'The target answered 410 Gone.', updated_at = carillon_clock()
FROM jobs_trigger t
WHERE t.id = ANY(%(trigger_ids)s::uuid[]) AND t.payload IS NULL AND job.id = t.job_id AND job.version = t.job_version
  AND job.status = 'active' AND job.workflow_id IS NULL
RETURNING job.id;

-- name: store_result
-- Keep the return value of a Celery task, once: a stale duplicate of the message never overwrites it. Nothing depends
-- on it, so the commit does not wait for the disk.
-- plan: kept
WITH unhurried AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
INSERT INTO django_celery_results_taskresult
    (task_id, task_name, worker, status, content_type, content_encoding, result, traceback, meta, task_args, task_kwargs,
     periodic_task_name, date_created, date_done)
SELECT %(task_id)s, %(task_name)s, %(worker)s, %(status)s, 'application/json', 'utf-8', %(result)s, %(traceback)s,
       '{"children": []}', %(task_args)s, NULL, NULL, carillon_clock(), carillon_clock()
FROM unhurried
ON CONFLICT (task_id) DO NOTHING;
