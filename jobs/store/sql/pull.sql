-- Statements that pull workers need beside those of every worker (execution.sql): they find the triggers that are
-- queued for pull workers, and find again the triggers that these hold, of their own tenant alone.

-- name: offer
-- The queued triggers that a pull worker may claim next, first come first served, except that each level of priority is
-- worth a second. They stay locked until the claim that follows is committed, so that no two workers are offered the
-- same triggers. Celery's workers also serve a type without a tenant's mark: the first worker to claim a trigger has
-- it, and the message of a trigger claimed here claims nothing. Triggers whose effects must be made once are left to
-- Celery's workers, because they need ``ctx.once``.
-- locks: trigger rows, SKIP LOCKED, held to the end of the claim
-- index: trigger_in_flight
-- returns: id, fence, job_type, suspect
SELECT id, fence, job_type, suspect FROM jobs_trigger
WHERE tenant_id = %(tenant_id)s AND job_type = ANY(%(job_types)s::text[]) AND phase = 'in_flight'
  AND state = 'queued'
  AND CASE WHEN strpos(job_type, '@') > 0 THEN true
      ELSE (SELECT delivery FROM jobs_job WHERE id = jobs_trigger.job_id) <> 'exactly_once' END
ORDER BY queued_at + priority * interval '1 second', id
LIMIT %(limit)s
FOR NO KEY UPDATE SKIP LOCKED;

-- name: lock
-- Lock triggers of one tenant, so that two reports about one take turns.
-- locks: trigger rows by id, waits (request)
-- index: primary key
-- returns: id
SELECT id FROM jobs_trigger
WHERE id = ANY(%(ids)s::uuid[]) AND tenant_id = %(tenant_id)s
ORDER BY id
FOR NO KEY UPDATE;

-- name: held
-- Triggers that run under the given fences, with all columns that finishing them needs. The caller has locked them.
-- index: primary key, jobs_attempt_trigger
-- returns: one row a trigger still held; overdue: its attempt has used its time up
SELECT t.id, t.fence, t.job_id, t.tenant_id, t.job_type, t.scheduled_for, t.due_at, t.attempt_count, t.budget_start,
       t.crash_count, t.cancel_requested, t.trace, t.origin, t.replay_count, t.workflow_run_id,
       extract(epoch FROM t.created_at)::float AS created, extract(epoch FROM t.queued_at)::float AS queued,
       carillon_clock() - t.started_at AS elapsed, job.name AS job_name, job.retry_policy, job.delivery, job.timeout,
       tenant.slug AS tenant, tenant.all_events OR tenant.watched OR job.watched AS watched,
       CASE WHEN tenant.circuit_breaker AND (t.payload IS NULL OR EXISTS (
                SELECT FROM jobs_breaker b
                WHERE b.tenant_id = t.tenant_id AND b.target = job.target AND b.probe_id = t.id))
            THEN job.target ELSE '' END AS guarded_target,
       attempt.id AS attempt_id, attempt.started_at AS attempt_started_at, carillon_clock() - attempt.started_at AS ran,
       carillon_clock() - attempt.started_at > job.timeout AS overdue
FROM unnest(%(ids)s::uuid[], %(fences)s::int[]) AS w(id, fence), LATERAL (
    SELECT * FROM jobs_trigger WHERE id = w.id AND tenant_id = %(tenant_id)s OFFSET 0) t, LATERAL (
    SELECT name, retry_policy, delivery, timeout, watched, target FROM jobs_job WHERE id = t.job_id OFFSET 0) job, LATERAL (
    SELECT slug, all_events, watched, circuit_breaker FROM tenants_tenant WHERE id = t.tenant_id OFFSET 0) tenant, LATERAL (
    SELECT id, started_at FROM jobs_attempt a
    WHERE a.trigger_id = t.id AND a.fence = t.fence AND a.number = t.attempt_count AND a.state = 'started'
    ORDER BY a.number LIMIT 1) attempt
WHERE t.fence = w.fence AND t.state = 'running';

-- name: keep_output
-- Store the output so far of attempts that are under way, in place of the output known before. The caller has locked
-- their triggers.
-- locks: rows of attempts, waits (request)
-- index: primary key
UPDATE jobs_attempt a SET output = o.output
FROM unnest(%(attempt_ids)s::uuid[], %(attempt_started_ats)s::timestamptz[], %(outputs)s::text[])
     AS o(id, started_at, output)
-- As finish, in execution.sql.
WHERE a.id = ANY(%(attempt_ids)s::uuid[]) AND a.started_at BETWEEN %(first_started_at)s AND %(last_started_at)s
  AND a.id = o.id AND a.started_at = o.started_at AND a.state = 'started' AND a.output IS DISTINCT FROM o.output;

-- name: types_among
-- Those of the names that are pull types of a tenant.
-- index: jobs_pulltype's unique name of a tenant
-- returns: name, job_type
SELECT name, job_type FROM jobs_pulltype WHERE tenant_id = %(tenant_id)s AND name = ANY(%(names)s::text[]);

-- name: keep_type
-- Keep a pull type from being deleted until the transaction ends.
-- locks: the type's row, shared, waits (request)
-- index: jobs_pulltype's unique job_type
-- returns: id
SELECT id FROM jobs_pulltype WHERE job_type = %(job_type)s FOR KEY SHARE;
