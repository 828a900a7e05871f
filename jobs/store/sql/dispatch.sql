-- A turn of dispatch: read the news, choose lanes in memory (jobs.core.backlog), and in one transaction look at these
-- lanes alone, from each lane's floor on. Lanes, tenants and triggers that are not chosen add no cost here.

-- name: news
-- The lanes in which triggers became dispatchable since %(since)s, each with the earliest due_at of these triggers; the
-- time now; whether dispatch is stopped; and the version of the rules for targets.
-- index: trigger_announced, primary key
-- plan: kept
-- returns: now, stopped, targets_version, tenant_id (null when there is no news), job_type, priority, floor
SELECT carillon_now() AS now, coalesce(i.stopped, false) AS stopped, coalesce(i.targets_version, 0) AS targets_version,
       n.tenant_id, n.job_type, n.priority, n.floor
FROM (SELECT 1) one LEFT JOIN (
    SELECT stopped_at IS NOT NULL AS stopped, targets_version FROM jobs_installation WHERE id = 1) i ON true
LEFT JOIN LATERAL (
    SELECT t.tenant_id, t.job_type, t.priority, min(t.due_at) AS floor
    FROM (SELECT tenant_id, job_type, priority, due_at FROM jobs_trigger
          -- For an open end the kept plan expects a third of all pending triggers and walks another index; for a range,
          -- few.
          WHERE phase IN ('pending', 'retrying') AND NOT held
            AND announced_at > %(since)s::timestamptz AND announced_at < 'infinity'
          OFFSET 0) t
    GROUP BY t.tenant_id, t.job_type, t.priority) n ON true;

-- name: sweep
-- Up to %(limit)s lanes behind the given one, each with its first trigger that waits. A loose index scan jumps from
-- lane to lane, so the cost is the number of lanes, and their depth does not matter.
-- index: trigger_lane
-- plan: kept
-- returns: tenant_id, job_type, priority, floor
WITH RECURSIVE lane AS (
    (SELECT tenant_id, job_type, priority, due_at, 1 AS nth FROM jobs_trigger
     WHERE phase IN ('pending', 'retrying') AND NOT held
       AND (tenant_id, job_type, priority) > (%(tenant_id)s::bigint, %(job_type)s::text, %(priority)s::smallint)
     ORDER BY tenant_id, job_type, priority, due_at LIMIT 1)
    UNION ALL
    SELECT following.*, lane.nth + 1 FROM lane, LATERAL (
        SELECT tenant_id, job_type, priority, due_at FROM jobs_trigger t
        WHERE t.phase IN ('pending', 'retrying') AND NOT t.held
          AND (t.tenant_id, t.job_type, t.priority) > (lane.tenant_id, lane.job_type, lane.priority)
        ORDER BY t.tenant_id, t.job_type, t.priority, t.due_at LIMIT 1) following
    WHERE lane.nth < %(limit)s
)
SELECT tenant_id, job_type, priority, due_at AS floor FROM lane ORDER BY nth;

-- name: bound
-- Limit the time that each statement of this transaction may take.
SELECT set_config('statement_timeout', %(milliseconds)s::text, true);

-- name: tenants
-- The columns of tenants that dispatch needs before it chooses among them.
-- index: primary key
-- plan: kept
-- returns: id, status, weight, max_in_flight, rate_per_second, rate_burst, circuit_breaker
SELECT id, status, weight, max_in_flight, rate_per_second, rate_burst, circuit_breaker FROM tenants_tenant
WHERE id = ANY(%(ids)s::bigint[]);

-- name: lock_tenants
-- Tenants that may be served now, locked so that caps and overlap stay exact with several dispatchers, and so that an
-- acknowledged pause or cancel holds: actions lock the same row. Returns none while dispatch is stopped: a turn that
-- began before the stop serves no further tenant.
-- locks: tenant rows, SKIP LOCKED, held to the end of the dispatch transaction
-- index: primary key
-- plan: kept
-- returns: id, status, weight, max_in_flight, rate_per_second, rate_burst, circuit_breaker
SELECT id, status, weight, max_in_flight, rate_per_second, rate_burst, circuit_breaker FROM tenants_tenant
WHERE id = ANY(%(ids)s::bigint[])
  AND (%(term)s::bigint IS NULL OR EXISTS (
       SELECT 1 FROM jobs_lease WHERE name = 'leader' AND term = %(term)s AND expires_at > carillon_clock()))
  AND NOT EXISTS (SELECT FROM jobs_installation WHERE id = 1 AND stopped_at IS NOT NULL)
FOR NO KEY UPDATE SKIP LOCKED;

-- name: in_flight_since
-- Triggers that are in flight and were queued after %(since)s, counted by lane.
-- index: trigger_queued_at
-- plan: kept
-- returns: tenant_id, job_type, priority, queued, in_flight
SELECT tenant_id, job_type, priority, count(*) FILTER (WHERE state = 'queued') AS queued, count(*) AS in_flight
FROM (SELECT tenant_id, job_type, priority, state FROM jobs_trigger
      WHERE phase = 'in_flight' AND queued_at > %(since)s::timestamptz OFFSET 0) t
GROUP BY tenant_id, job_type, priority;

-- name: in_flight_between
-- Triggers that are in flight and were queued after %(since)s and up to %(until)s.
-- index: trigger_queued_at
-- plan: kept
-- returns: id, tenant_id, job_type, priority, state
SELECT id, tenant_id, job_type, priority, state FROM jobs_trigger
WHERE phase = 'in_flight' AND queued_at > %(since)s::timestamptz AND queued_at <= %(until)s::timestamptz;

-- name: in_flight_of
-- Those of the given triggers that are still in flight and were queued up to %(until)s.
-- index: primary key
-- plan: kept
-- returns: id, tenant_id, job_type, priority, state
SELECT id, tenant_id, job_type, priority, state FROM jobs_trigger
WHERE id = ANY(%(ids)s::uuid[]) AND CASE WHEN phase = 'in_flight' THEN queued_at <= %(until)s::timestamptz END;

-- name: in_flight_of_tenants
-- How many triggers of each tenant are in flight. A tenant that has none is left out.
-- index: trigger_in_flight
-- plan: kept
-- returns: tenant_id, in_flight
SELECT tenant_id, count(*) AS in_flight FROM jobs_trigger
WHERE phase = 'in_flight' AND tenant_id = ANY(%(tenant_ids)s::bigint[])
GROUP BY tenant_id;

-- name: candidates
-- The next triggers of each lane, from its floor on, in the order in which they are due, as many as are asked for of
-- the lane.
-- locks: trigger rows, SKIP LOCKED, held to the end of the dispatch transaction
-- index: trigger_lane
-- plan: kept
-- returns: nth (the lane, from 1), id, job_id, tenant_id, job_type, priority, scheduled_for, due_at, state, origin,
-- attempt_count, replay_count, fence, suspect, own_payload (only this run has it)
SELECT l.nth, t.*
FROM unnest(%(tenant_ids)s::bigint[], %(job_types)s::text[], %(priorities)s::smallint[], %(floors)s::timestamptz[],
            %(counts)s::int[]) WITH ORDINALITY AS l(tenant_id, job_type, priority, floor, count, nth), LATERAL (
    SELECT id, job_id, tenant_id, job_type, priority, scheduled_for, due_at, state, origin, attempt_count, replay_count,
           fence, suspect, payload IS NOT NULL AS own_payload
    FROM jobs_trigger t
    WHERE t.tenant_id = l.tenant_id AND t.job_type = l.job_type AND t.priority = l.priority
      AND t.phase IN ('pending', 'retrying') AND NOT t.held AND t.due_at >= l.floor AND t.due_at <= carillon_now()
    ORDER BY t.due_at LIMIT l.count
    FOR NO KEY UPDATE SKIP LOCKED) t
ORDER BY l.nth, t.due_at, t.id;

-- name: waiting
-- The first firings, which may be skipped, of lanes from which nothing may start, from each lane's floor on.
-- index: trigger_lane
-- returns: nth (the lane, from 1), and of each trigger the columns that jobs.core.policies.decide needs; in the order
-- of their due_at
SELECT l.nth, t.*
FROM unnest(%(tenant_ids)s::bigint[], %(job_types)s::text[], %(priorities)s::smallint[], %(floors)s::timestamptz[])
         WITH ORDINALITY AS l(tenant_id, job_type, priority, floor, nth), LATERAL (
    SELECT job_id, job_type, scheduled_for, due_at, state, origin, attempt_count, replay_count FROM jobs_trigger t
    WHERE t.tenant_id = l.tenant_id AND t.job_type = l.job_type AND t.priority = l.priority
      AND t.phase IN ('pending', 'retrying') AND NOT t.held AND t.due_at >= l.floor AND t.due_at <= carillon_now()
    ORDER BY t.due_at LIMIT %(limit)s) t
ORDER BY l.nth, t.due_at;

-- name: facts
-- The state of each job, for jobs.core.policies.decide. Its other triggers are read only if its policy and its
-- candidates need them, and however many there are, a few are enough. %(due_ats)s and %(jitters)s belong to its first
-- candidate that may be skipped, or are null. For a workflow's schedule, the running runs of the workflow count as in
-- flight. Of a job that may run as many side by side as its whole tenant, those in flight are only counted if %(counts)s
-- says so: the tenant's cap holds them. Behind an old snapshot a count walks the entries of all that ended since.
-- index: primary key, trigger_unfinished_by_job, trigger_key_in_flight, workflowrun_running
-- plan: kept
-- returns: nth (the job, from 1), job_id, tenant_id, job_type, priority, active, ended, policies, target, delivery,
-- concurrency_key, now, in_flight, unfinished (in_flight, and one more if any is retrying), key_in_flight, keep_from,
-- newest_due, oldest_due
SELECT w.nth, w.job_id, j.tenant_id, j.job_type, j.priority,
       j.deleted_at IS NULL AND j.status IN ('active', 'completed') AS active,
       j.deleted_at IS NOT NULL OR j.status = 'cancelled' AS ended,
       j.overlap_policy, j.misfire_policy, j.misfire_grace, j.catchup_window, j.max_concurrent, j.target, j.delivery,
       j.concurrency_key, carillon_now() AS now, others.in_flight + begun.runs AS in_flight,
       others.in_flight + begun.runs + others.retries::int AS unfinished,
       CASE WHEN j.concurrency_key <> '' AND capped.by_job THEN (
           SELECT count(*) FROM jobs_trigger k
           WHERE k.tenant_id = j.tenant_id AND k.concurrency_key = j.concurrency_key AND k.concurrency_key <> ''
             AND k.phase = 'in_flight') ELSE 0 END AS key_in_flight,
       -- The newest missed firings run: one, or max_catchup. One of them may still wait to be materialized.
       CASE WHEN w.due_at + j.misfire_grace < carillon_now() AND j.misfire_policy IN ('fire_once', 'backfill') THEN
           CASE WHEN kept.count < 1 THEN carillon_now() ELSE (
               SELECT later.scheduled_for FROM (VALUES (false), (true)) AS sight(held), LATERAL (
                   SELECT t.scheduled_for FROM jobs_trigger t
                   WHERE t.job_id = w.job_id AND t.phase = 'pending' AND t.held = sight.held AND t.origin = 'schedule'
                     AND t.scheduled_for < carillon_now() - j.misfire_grace
                     AND t.due_at + j.misfire_grace < carillon_now()
                   ORDER BY t.scheduled_for DESC LIMIT kept.count) later
               ORDER BY later.scheduled_for DESC OFFSET greatest(kept.count - 1, 0) LIMIT 1) END
       END AS keep_from,
       CASE WHEN w.due_at IS NOT NULL AND j.overlap_policy IN ('collapse', 'replace') THEN (
           -- due_at is not null here, so this means NOT held. With NOT held, the kept plan may read the index of all
           -- lanes.
           SELECT newer.scheduled_for FROM jobs_trigger newer
           WHERE newer.job_id = w.job_id AND newer.phase = 'pending' AND newer.held = (w.due_at IS NULL)
             AND newer.origin = 'schedule' AND newer.due_at <= carillon_now()
           ORDER BY newer.scheduled_for DESC LIMIT 1) END AS newest_due,
       CASE WHEN w.due_at IS NOT NULL AND j.overlap_policy = 'queue' THEN (
           SELECT min(older.scheduled_for) FROM (VALUES (false), (true)) AS sight(held), LATERAL (
               SELECT t.scheduled_for FROM jobs_trigger t
               WHERE t.job_id = w.job_id AND t.phase = 'pending' AND t.held = sight.held AND t.origin = 'schedule'
                 AND t.due_at <= carillon_now()
               ORDER BY t.scheduled_for LIMIT 1) older) END AS oldest_due
FROM unnest(%(job_ids)s::uuid[], %(due_ats)s::timestamptz[], %(jitters)s::interval[], %(counts)s::boolean[])
         WITH ORDINALITY AS w(job_id, due_at, jitter, counted, nth), LATERAL (
    SELECT * FROM jobs_job WHERE id = w.job_id OFFSET 0) j, LATERAL (
    SELECT w.counted OR j.overlap_policy <> 'allow' OR j.misfire_policy = 'backfill'
           OR j.job_type = 'carillon.workflow'
           OR j.max_concurrent < (SELECT max_in_flight FROM tenants_tenant WHERE id = j.tenant_id) AS by_job
    OFFSET 0) capped, LATERAL (
    -- BETWEEN: for =, the kept plan may read the index of all jobs' triggers of that phase.
    SELECT CASE WHEN capped.by_job THEN (
               SELECT count(*) FROM jobs_trigger other
               WHERE other.job_id = w.job_id AND other.phase IN ('pending', 'retrying', 'in_flight')
                 AND other.phase BETWEEN 'in_flight' AND 'in_flight') ELSE 0 END AS in_flight,
           (SELECT 1 FROM jobs_trigger r
            WHERE r.job_id = w.job_id AND r.phase IN ('pending', 'retrying', 'in_flight')
              AND r.phase BETWEEN 'retrying' AND 'retrying' LIMIT 1) IS NOT NULL AS retries
    OFFSET 0) others, LATERAL (
    SELECT CASE j.job_type WHEN 'carillon.workflow' THEN carillon_running_runs(j.workflow_id) ELSE 0 END AS runs
    OFFSET 0) begun, LATERAL (
    SELECT CASE j.misfire_policy WHEN 'fire_once' THEN 1 ELSE j.max_catchup END
           - coalesce(j.next_fire_at + w.jitter + j.misfire_grace < carillon_now(), false)::int AS count) kept;

-- name: skip_missed
-- End the missed firings of jobs as sets: those scheduled before the job's keep_from. The reason of a firing depends on
-- whether it is older than the job's catch-up window: end_of_missed of jobs.core.policies gives both reasons for each
-- policy that ends any.
-- transition: pending -> skipped
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_unfinished_by_job, primary key
-- plan: kept
-- returns: id, reason, tenant_id, job_type
UPDATE jobs_trigger t SET
    state = 'skipped', finished_at = carillon_clock(), held = false, parked = false, parked_until = NULL,
    reason = (SELECT CASE WHEN t.due_at + j.catchup_window < carillon_now() THEN e.too_old ELSE e.passed_over END
              FROM jobs_job j, unnest(%(policies)s::text[], %(too_old)s::text[], %(passed_over)s::text[])
                  AS e(policy, too_old, passed_over)
              WHERE j.id = t.job_id AND e.policy = j.misfire_policy)
WHERE t.id = ANY(ARRAY(
    SELECT missed.id
    FROM unnest(%(job_ids)s::uuid[], %(keep_froms)s::timestamptz[]) AS w(job_id, keep_from), LATERAL (
        SELECT misfire_grace FROM jobs_job
        WHERE id = w.job_id AND misfire_policy = ANY(%(policies)s::text[]) OFFSET 0) job, (
        VALUES (false), (true)) AS sight(held), LATERAL (
        SELECT m.id FROM jobs_trigger m
        WHERE m.job_id = w.job_id AND m.phase = 'pending' AND m.held = sight.held AND m.origin = 'schedule'
          AND m.attempt_count = 0 AND m.replay_count = 0 AND m.parked = sight.held AND m.scheduled_for < w.keep_from
          AND m.due_at + job.misfire_grace < carillon_now()
        ORDER BY m.scheduled_for LIMIT %(limit)s
        FOR NO KEY UPDATE SKIP LOCKED) missed
    LIMIT %(limit)s)) AND t.state = 'pending'
RETURNING t.id, t.reason, t.tenant_id, t.job_type;

-- name: floors
-- The first trigger that waits in each lane, from the lane's floor on, locked or not.
-- index: trigger_lane
-- plan: kept
-- returns: nth (the lane, from 1), floor (null when nothing waits)
SELECT l.nth, (
    SELECT t.due_at FROM jobs_trigger t
    WHERE t.tenant_id = l.tenant_id AND t.job_type = l.job_type AND t.priority = l.priority
      AND t.phase IN ('pending', 'retrying') AND NOT t.held AND t.due_at >= l.floor
    ORDER BY t.due_at LIMIT 1) AS floor
FROM unnest(%(tenant_ids)s::bigint[], %(job_types)s::text[], %(priorities)s::smallint[], %(floors)s::timestamptz[])
         WITH ORDINALITY AS l(tenant_id, job_type, priority, floor, nth);

-- name: move
-- Move triggers whose job has got another type since they were made into that type's lane.
-- locks: trigger rows, held by candidates
-- index: primary key
UPDATE jobs_trigger t SET job_type = j.job_type, priority = j.priority
FROM jobs_job j
WHERE t.id = ANY(%(ids)s::uuid[]) AND j.id = t.job_id AND t.state IN ('pending', 'retrying');

-- name: dispatch
-- Queue the chosen triggers under a new fence. Commit this before anything is published: the row is the outbox.
-- transition: pending, retrying -> queued
-- locks: trigger rows, held by candidates
-- index: primary key
-- plan: kept
-- returns: id, fence, job_type
UPDATE jobs_trigger t SET
    state = 'queued', fence = t.fence + 1, queued_at = carillon_clock(), worker = '', lease_expires_at = NULL,
    (job_version, concurrency_key) = (SELECT version, concurrency_key FROM jobs_job WHERE id = t.job_id)
WHERE t.id = ANY(%(ids)s::uuid[]) AND CASE WHEN t.state IN ('pending', 'retrying') THEN NOT t.held END
RETURNING t.id, t.fence, t.job_type;

-- name: skip
-- End firings that must not run, each with its reason.
-- transition: pending -> skipped
-- locks: trigger rows, held by candidates
-- index: primary key
-- returns: id, reason, tenant_id, job_type
UPDATE jobs_trigger t SET state = 'skipped', reason = s.reason, finished_at = carillon_clock()
FROM unnest(%(ids)s::uuid[], %(reasons)s::text[]) AS s(id, reason)
WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = s.id AND t.state = 'pending'
RETURNING t.id, t.reason, t.tenant_id, t.job_type;

-- name: cancel
-- Cancel triggers that a newer trigger of their job has overtaken, or whose job was cancelled while they were made.
-- transition: pending, retrying -> cancelled
-- locks: trigger rows, held by candidates
-- index: primary key
-- returns: id, reason, tenant_id, job_type
UPDATE jobs_trigger t SET state = 'cancelled', reason = c.reason, finished_at = carillon_clock()
FROM unnest(%(ids)s::uuid[], %(reasons)s::text[]) AS c(id, reason)
WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = c.id AND t.state IN ('pending', 'retrying')
RETURNING t.id, t.reason, t.tenant_id, t.job_type;

-- name: freeze
-- Skip triggers that fall due while their tenant is frozen (tenants.models). A trigger that was tried before waits
-- until the tenant is active.
-- transition: pending -> skipped
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_lane
-- returns: id, reason, tenant_id, job_type, origin, fence, replay_count
UPDATE jobs_trigger SET state = 'skipped', reason = 'frozen', finished_at = carillon_clock()
WHERE state = 'pending' AND attempt_count = 0 AND id = ANY(ARRAY(
    SELECT t.id FROM unnest(%(tenant_ids)s::bigint[], %(job_types)s::text[], %(priorities)s::smallint[])
        AS l(tenant_id, job_type, priority), LATERAL (
        SELECT id FROM jobs_trigger t
        WHERE t.tenant_id = l.tenant_id AND t.job_type = l.job_type AND t.priority = l.priority
          AND t.phase IN ('pending', 'retrying') AND NOT t.held AND t.due_at <= carillon_now()
          AND t.state = 'pending' AND t.attempt_count = 0
        ORDER BY t.due_at LIMIT %(limit)s
        FOR NO KEY UPDATE SKIP LOCKED) t
    LIMIT %(limit)s))
RETURNING id, reason, tenant_id, job_type, origin, fence, replay_count;
