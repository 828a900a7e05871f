-- name: expired_leases
-- Running triggers whose worker let its lease expire: it died, froze, or lost the database.
-- index: trigger_in_flight, jobs_attempt_trigger
-- returns: what the retry decision needs; companions: how many others were claimed with it
SELECT t.id, t.fence, t.attempt_count, t.budget_start, t.crash_count, t.cancel_requested,
       carillon_clock() - t.started_at AS elapsed, j.retry_policy, j.delivery,
       coalesce((SELECT a.companions FROM jobs_attempt a
                 WHERE a.trigger_id = t.id AND a.number = t.attempt_count AND a.fence = t.fence
                 ORDER BY a.number LIMIT 1), 0) AS companions
FROM jobs_trigger t, LATERAL (SELECT retry_policy, delivery FROM jobs_job WHERE id = t.job_id OFFSET 0) j
WHERE t.phase = 'in_flight' AND t.state = 'running' AND t.lease_expires_at < carillon_now()
ORDER BY t.lease_expires_at
LIMIT %(limit)s;

-- name: reap_running
-- Take expired triggers from their worker by spending the fence: its late result is stale from here on. A wish to
-- cancel that came after the verdict beats its retry. Who was not alone is not charged: the attempt costs it neither a
-- crash nor its budget. All travel alone from here on, so that the next crash names its cause.
-- transition: running -> retrying
-- transition: running -> dead
-- transition: running -> cancelled
-- index: primary key
-- returns: id, state, reason
WITH verdict AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(fences)s::int[], %(states)s::text[], %(reasons)s::text[],
                         %(delays)s::interval[], %(charged)s::boolean[]) AS v(id, fence, state, reason, delay, charged)
), reaped AS (
    UPDATE jobs_trigger t SET
        state = CASE WHEN v.state = 'retrying' AND t.cancel_requested THEN 'cancelled' ELSE v.state END,
        reason = CASE WHEN v.state = 'cancelled' OR v.state = 'retrying' AND t.cancel_requested
                      THEN coalesce(nullif(t.cancel_reason, ''), 'requested') ELSE v.reason END,
        fence = t.fence + 1, crash_count = t.crash_count + v.charged::int,
        budget_start = t.budget_start + (NOT v.charged)::int, suspect = true,
        due_at = CASE WHEN v.state = 'retrying' THEN carillon_clock() + v.delay ELSE t.due_at END,
        finished_at = CASE WHEN v.state = 'retrying' AND NOT t.cancel_requested THEN NULL ELSE carillon_clock() END,
        lease_expires_at = NULL
    FROM verdict v
    WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = v.id AND t.fence = v.fence AND t.state = 'running'
      AND t.lease_expires_at < carillon_clock()
      AND (%(term)s::bigint IS NULL OR EXISTS (
           SELECT 1 FROM jobs_lease WHERE name = %(lease)s AND term = %(term)s AND expires_at > carillon_clock()))
    RETURNING t.id, v.fence, t.state, t.reason, v.charged
), attempt AS (
    UPDATE jobs_attempt a SET
        state = 'lost', finished_at = carillon_clock(), duration = carillon_clock() - a.started_at,
        error_code = 'lease_expired', error_message = 'The worker died, froze or lost the database: its lease expired.'
            || CASE WHEN r.charged THEN '' ELSE format(
                   ' It had %%s more in hand: this one is not charged for it and travels alone from now on.',
                   a.companions) END
    FROM reaped r
    WHERE a.trigger_id = ANY(%(ids)s::uuid[]) AND a.trigger_id = r.id AND a.fence = r.fence AND a.state = 'started'
)
SELECT id, state, reason, charged FROM reaped;

-- name: give_up
-- What a process that is stuck has in hand, before it ends itself. Those whose handlers had started are told from those
-- that had not: ``suspect``. A wish to cancel beats a retry.
-- transition: running -> retrying
-- transition: running -> dead
-- transition: running -> cancelled
-- index: primary key
-- returns: id, state, reason
WITH verdict AS MATERIALIZED (
    SELECT * FROM unnest(
        %(ids)s::uuid[], %(fences)s::int[], %(states)s::text[], %(reasons)s::text[], %(delays)s::interval[],
        %(charged)s::boolean[], %(suspects)s::boolean[], %(attempt_states)s::text[], %(error_codes)s::text[],
        %(error_messages)s::text[])
        AS v(id, fence, state, reason, delay, charged, suspect, attempt_state, error_code, error_message)
), given_up AS (
    UPDATE jobs_trigger t SET
        state = CASE WHEN v.state = 'retrying' AND t.cancel_requested THEN 'cancelled' ELSE v.state END,
        reason = CASE WHEN v.state = 'retrying' AND t.cancel_requested
                      THEN coalesce(nullif(t.cancel_reason, ''), 'requested') ELSE v.reason END,
        crash_count = t.crash_count + v.charged::int, budget_start = t.budget_start + (NOT v.charged)::int,
        suspect = t.suspect OR v.suspect,
        due_at = CASE WHEN v.state = 'retrying' THEN carillon_clock() + v.delay ELSE t.due_at END,
        finished_at = CASE WHEN v.state = 'retrying' AND NOT t.cancel_requested THEN NULL ELSE carillon_clock() END,
        lease_expires_at = NULL
    FROM verdict v
    WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = v.id AND t.fence = v.fence AND CASE t.state WHEN 'running' THEN true END
    RETURNING t.id, v.fence, t.state, t.reason, v.attempt_state, v.error_code, v.error_message
), attempt AS (
    UPDATE jobs_attempt a SET
        state = g.attempt_state, finished_at = carillon_clock(), duration = carillon_clock() - a.started_at,
        error_code = g.error_code, error_message = g.error_message
    FROM given_up g
    WHERE a.trigger_id = ANY(%(ids)s::uuid[]) AND a.trigger_id = g.id AND a.fence = g.fence AND a.state = 'started'
)
SELECT id, state, reason FROM given_up;

-- name: reap_queued
-- Queued triggers nobody claimed by their deadline: the message was lost, or never sent. From the second dispatch on
-- that went unclaimed (of fence - attempt_count) the deadline doubles with each, so that a queue that is merely slow
-- is not flooded with copies. Not with the first: a broker that forgets twice in a row must not cost a minute more.
-- transition: queued -> pending
-- index: trigger_in_flight
-- returns: id, job_type
UPDATE jobs_trigger SET state = 'pending', queued_at = NULL
WHERE id = ANY(ARRAY(
        SELECT id FROM jobs_trigger
        WHERE phase = 'in_flight' AND state = 'queued' AND queued_at < carillon_now() - %(deadline)s
          AND queued_at < carillon_now()
              - %(deadline)s * power(2, least(greatest(fence - attempt_count - 2, 0), 6))
        ORDER BY queued_at
        LIMIT %(limit)s
        FOR NO KEY UPDATE SKIP LOCKED))
  AND state = 'queued'
  AND (%(term)s::bigint IS NULL OR EXISTS (
       SELECT 1 FROM jobs_lease WHERE name = %(lease)s AND term = %(term)s AND expires_at > carillon_clock()))
RETURNING id, job_type;
