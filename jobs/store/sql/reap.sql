-- name: expired_leases
-- Running triggers whose worker let its lease expire: it died, froze, or lost the database. Locked triggers are
-- skipped, so that many of them cannot hide the others.
-- locks: trigger rows, SKIP LOCKED, for this statement only
-- index: trigger_in_flight, jobs_attempt_trigger
-- plan: kept
-- returns: the columns of the retry decision and of the log's line; claimed_with: how many others were claimed with it;
-- stopping: whether its worker had been told to stop; ran: since its attempt began
SELECT t.id, t.fence, t.attempt_count, t.budget_start, t.crash_count, t.cancel_requested, t.job_id, t.job_type,
       t.scheduled_for, t.due_at, t.trace, t.origin, t.replay_count, t.workflow_run_id,
       extract(epoch FROM t.created_at)::float AS created, extract(epoch FROM t.queued_at)::float AS queued,
       carillon_clock() - t.started_at AS elapsed, j.name AS job_name, j.retry_policy, j.delivery,
       tenant.slug AS tenant, a.id AS attempt_id, a.started_at AS attempt_started_at,
       carillon_clock() - a.started_at AS ran, coalesce(a.claimed_with, 0) AS claimed_with,
       coalesce(a.error_code = 'stopping', false) AS stopping
FROM jobs_trigger t
    LEFT JOIN LATERAL (SELECT id, started_at, claimed_with, error_code FROM jobs_attempt
                       WHERE trigger_id = t.id AND number = t.attempt_count AND fence = t.fence
                       ORDER BY number LIMIT 1) a ON true,
    LATERAL (SELECT name, retry_policy, delivery FROM jobs_job WHERE id = t.job_id OFFSET 0) j,
    LATERAL (SELECT slug FROM tenants_tenant WHERE id = t.tenant_id OFFSET 0) tenant
WHERE t.phase = 'in_flight' AND t.state = 'running' AND t.lease_expires_at < carillon_now()
ORDER BY t.lease_expires_at
LIMIT %(limit)s
FOR NO KEY UPDATE OF t SKIP LOCKED;

-- name: in_hand
-- Triggers that a process had claimed when it was ended, and still holds.
-- index: primary key
-- returns: the columns of the retry decision, and the timeout
SELECT t.id, t.fence, t.attempt_count, t.budget_start, t.crash_count, carillon_clock() - t.started_at AS elapsed,
       j.retry_policy, j.delivery, j.timeout
FROM unnest(%(ids)s::uuid[], %(fences)s::int[]) AS held(id, fence),
    LATERAL (SELECT * FROM jobs_trigger WHERE id = held.id OFFSET 0) t,
    LATERAL (SELECT retry_policy, delivery, timeout FROM jobs_job WHERE id = t.job_id OFFSET 0) j
WHERE t.fence = held.fence AND t.state = 'running';

-- name: absolve
-- Take back the charge of lost leases: their process did not die, and says so now. Call it once for a lease whose late
-- outcome is on record already. A trigger that was not claimed alone was not charged. A trigger that was buried since
-- stays buried.
-- locks: rows of triggers and attempts, waits (worker)
-- index: primary key, jobs_attempt_trigger
-- returns: id
WITH lost AS (
    UPDATE jobs_attempt a SET
        error_code = CASE a.state WHEN 'lost' THEN 'lease_lapsed' ELSE a.error_code END,
        error_message = CASE a.state WHEN 'lost' THEN
            'The worker lived and could not renew its lease: it was frozen, or lost the database. Not charged.'
            ELSE a.error_message END
    FROM unnest(%(ids)s::uuid[], %(fences)s::int[]) AS held(id, fence)
    WHERE a.trigger_id = ANY(%(ids)s::uuid[]) AND a.trigger_id = held.id AND a.fence = held.fence
      AND (a.state = 'lost' AND a.error_code = 'lease_expired' OR a.state = 'stale') AND a.claimed_with = 0
    RETURNING a.trigger_id
)
UPDATE jobs_trigger SET crash_count = crash_count - 1, budget_start = budget_start + 1
WHERE id = ANY(ARRAY(SELECT trigger_id FROM lost)) AND crash_count > 0 AND state IN ('pending', 'retrying', 'queued', 'running')
RETURNING id;

-- name: reap_running
-- Take expired triggers from their worker by spending the fence: its late result is stale from here on. A wish to
-- cancel that came after the decision beats its retry. A trigger that was not claimed alone, or whose worker was told
-- to stop, is not charged: the attempt costs it neither a crash nor its budget. All of them travel alone from here on,
-- so that the next crash names its cause.
-- transition: running -> retrying
-- transition: running -> dead
-- transition: running -> cancelled
-- locks: trigger rows and those of their attempts, SKIP LOCKED: without its attempt no trigger is reaped
-- index: primary key, jobs_attempt_trigger
-- returns: id, tenant_id, job_type, state, reason, charged
WITH recovery AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(fences)s::int[], %(states)s::text[], %(reasons)s::text[],
                         %(delays)s::interval[], %(charged)s::boolean[]) AS v(id, fence, state, reason, delay, charged)
), tried AS MATERIALIZED (
    SELECT trigger_id FROM jobs_attempt WHERE trigger_id = ANY(%(ids)s::uuid[]) AND state = 'started'
    FOR NO KEY UPDATE SKIP LOCKED
), free AS MATERIALIZED (
    SELECT id FROM jobs_trigger t
    -- Counted, because an anti-join would read all attempts.
    WHERE id = ANY(%(ids)s::uuid[])
      AND (SELECT count(*) FROM jobs_attempt a WHERE a.trigger_id = t.id AND a.state = 'started')
          = (SELECT count(*) FROM tried WHERE trigger_id = t.id)
    FOR NO KEY UPDATE SKIP LOCKED
), reaped AS (
    UPDATE jobs_trigger t SET
        state = CASE WHEN v.state = 'retrying' AND t.cancel_requested THEN 'cancelled' ELSE v.state END,
        reason = CASE WHEN v.state = 'cancelled' OR v.state = 'retrying' AND t.cancel_requested
                      THEN coalesce(nullif(t.cancel_reason, ''), 'requested') ELSE v.reason END,
        fence = t.fence + 1, crash_count = t.crash_count + v.charged::int,
        budget_start = t.budget_start + (NOT v.charged)::int, suspect = true,
        due_at = CASE WHEN v.state = 'retrying' THEN carillon_clock() + v.delay ELSE t.due_at END,
        finished_at = CASE WHEN v.state = 'retrying' AND NOT t.cancel_requested THEN NULL ELSE carillon_clock() END,
        -- As finish, in execution.sql.
        job_type = CASE v.state WHEN 'retrying' THEN (SELECT job_type FROM jobs_job WHERE id = t.job_id) ELSE t.job_type END,
        priority = CASE v.state WHEN 'retrying' THEN (SELECT priority FROM jobs_job WHERE id = t.job_id) ELSE t.priority END,
        lease_expires_at = NULL
    FROM recovery v
    WHERE t.id = ANY(ARRAY(SELECT id FROM free)) AND t.id = v.id AND t.fence = v.fence AND t.state = 'running'
      AND t.lease_expires_at < carillon_clock()
      AND (%(term)s::bigint IS NULL OR EXISTS (
           SELECT 1 FROM jobs_lease WHERE name = 'leader' AND term = %(term)s AND expires_at > carillon_clock()))
    RETURNING t.id, t.tenant_id, t.job_type, v.fence, t.state, t.reason, v.charged
), attempt AS (
    UPDATE jobs_attempt a SET
        state = 'lost', finished_at = carillon_clock(), duration = carillon_clock() - a.started_at,
        error_code = CASE a.error_code WHEN 'stopping' THEN 'worker_stopped' ELSE 'lease_expired' END,
        error_message = CASE WHEN a.error_code = 'stopping' THEN
            'The worker was told to stop and was killed before this had ended. It is not charged for it.'
            ELSE 'The worker died, froze or lost the database: its lease expired.' || CASE WHEN r.charged THEN '' ELSE
                format(' It had %%s more in hand: this one is not charged for it and travels alone from now on.',
                       a.claimed_with) END END
    FROM reaped r
    WHERE a.trigger_id = ANY(%(ids)s::uuid[]) AND a.trigger_id = r.id AND a.fence = r.fence AND a.state = 'started'
)
SELECT id, tenant_id, job_type, state, reason, charged FROM reaped;

-- name: give_up
-- End the triggers that a stuck process has claimed, before it ends itself. ``suspect`` tells triggers whose handlers
-- had started from triggers whose handlers had not. A wish to cancel beats a retry.
-- transition: running -> retrying
-- transition: running -> dead
-- transition: running -> cancelled
-- locks: rows of triggers and attempts, waits (worker)
-- index: primary key
-- returns: id, tenant_id, job_type, state, reason, attempt_state
WITH recovery AS MATERIALIZED (
    SELECT * FROM unnest(
        %(ids)s::uuid[], %(fences)s::int[], %(states)s::text[], %(reasons)s::text[], %(delays)s::interval[],
        %(charged)s::boolean[], %(suspects)s::boolean[], %(attempt_states)s::text[], %(error_codes)s::text[],
        %(error_messages)s::text[], %(outputs)s::text[])
        AS v(id, fence, state, reason, delay, charged, suspect, attempt_state, error_code, error_message, output)
), given_up AS (
    UPDATE jobs_trigger t SET
        state = CASE WHEN v.state = 'retrying' AND t.cancel_requested THEN 'cancelled' ELSE v.state END,
        reason = CASE WHEN v.state = 'retrying' AND t.cancel_requested
                      THEN coalesce(nullif(t.cancel_reason, ''), 'requested') ELSE v.reason END,
        crash_count = t.crash_count + v.charged::int, budget_start = t.budget_start + (NOT v.charged)::int,
        suspect = t.suspect OR v.suspect,
        due_at = CASE WHEN v.state = 'retrying' THEN carillon_clock() + v.delay ELSE t.due_at END,
        finished_at = CASE WHEN v.state = 'retrying' AND NOT t.cancel_requested THEN NULL ELSE carillon_clock() END,
        -- As finish, in execution.sql.
        job_type = CASE v.state WHEN 'retrying' THEN (SELECT job_type FROM jobs_job WHERE id = t.job_id) ELSE t.job_type END,
        priority = CASE v.state WHEN 'retrying' THEN (SELECT priority FROM jobs_job WHERE id = t.job_id) ELSE t.priority END,
        lease_expires_at = NULL
    FROM recovery v
    WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = v.id AND t.fence = v.fence AND CASE t.state WHEN 'running' THEN true END
    RETURNING t.id, t.tenant_id, t.job_type, v.fence, t.state, t.reason, v.attempt_state, v.error_code, v.error_message,
        v.output
), attempt AS (
    UPDATE jobs_attempt a SET
        state = g.attempt_state, finished_at = carillon_clock(), duration = carillon_clock() - a.started_at,
        error_code = g.error_code, error_message = g.error_message, output = coalesce(g.output, a.output)
    FROM given_up g
    WHERE a.trigger_id = ANY(%(ids)s::uuid[]) AND a.trigger_id = g.id AND a.fence = g.fence AND a.state = 'started'
)
SELECT id, tenant_id, job_type, state, reason, attempt_state FROM given_up;

-- name: reap_queued
-- Queued triggers that no worker claimed by their deadline (claim_deadline of jobs.core.policies): the message was
-- lost, or never sent. The deadline of the second dispatch is no longer than that of the first: a broker that forgets
-- twice in a row must not cost a minute more.
-- transition: queued -> pending
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_in_flight
-- plan: kept
-- returns: id, tenant_id, job_type
UPDATE jobs_trigger SET state = 'pending', queued_at = NULL
WHERE id = ANY(ARRAY(
        SELECT id FROM jobs_trigger
        WHERE phase = 'in_flight' AND state = 'queued' AND queued_at < carillon_now() - %(deadline)s::interval
          AND queued_at < carillon_now()
              - %(deadline)s::interval * power(2, least(greatest(fence - attempt_count - 2, 0), 6))
        ORDER BY queued_at
        LIMIT %(limit)s
        FOR NO KEY UPDATE SKIP LOCKED))
  AND state = 'queued'
  AND (%(term)s::bigint IS NULL OR EXISTS (
       SELECT 1 FROM jobs_lease WHERE name = 'leader' AND term = %(term)s AND expires_at > carillon_clock()))
RETURNING id, tenant_id, job_type;
