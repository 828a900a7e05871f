-- name: due_lanes
-- The (tenant, job type, priority) lanes with a trigger due now, by a loose index scan that jumps from lane to lane:
-- its cost is the number of lanes, whatever their depth.
-- index: trigger_lane
-- returns: tenant_id, job_type, priority
WITH RECURSIVE lane AS (
    (SELECT tenant_id, job_type, priority FROM jobs_trigger
     WHERE state IN ('pending', 'retrying') AND NOT held
     ORDER BY tenant_id, job_type, priority LIMIT 1)
    UNION ALL
    SELECT following.* FROM lane, LATERAL (
        SELECT tenant_id, job_type, priority FROM jobs_trigger t
        WHERE t.state IN ('pending', 'retrying') AND NOT t.held
          AND (t.tenant_id, t.job_type, t.priority) > (lane.tenant_id, lane.job_type, lane.priority)
        ORDER BY t.tenant_id, t.job_type, t.priority LIMIT 1) following
)
SELECT lane.tenant_id, lane.job_type, lane.priority FROM lane
WHERE EXISTS (
    SELECT 1 FROM jobs_trigger t
    WHERE t.tenant_id = lane.tenant_id AND t.job_type = lane.job_type AND t.priority = lane.priority
      AND t.state IN ('pending', 'retrying') AND NOT t.held AND t.due_at <= carillon_now());

-- name: lock_tenants
-- Tenants that may be served now, locked so that caps and overlap stay exact with several dispatchers, and so that a
-- pause or cancel that was acknowledged holds: actions lock the same row.
-- locks: tenant rows, SKIP LOCKED, held to the end of the dispatch transaction
-- returns: id
SELECT id FROM tenants_tenant
WHERE id = ANY(%(tenant_ids)s::bigint[]) AND status = 'active'
  AND (%(term)s::bigint IS NULL OR EXISTS (
       SELECT 1 FROM jobs_lease WHERE name = %(lease)s AND term = %(term)s AND expires_at > carillon_clock()))
FOR NO KEY UPDATE SKIP LOCKED;

-- name: pick
-- Choose who goes next (DESIGN §8) among the lanes of locked tenants, and judge each: dispatch, hold, wait, or skip
-- with a reason. Within a tenant priorities share 8:4:2:1; tenants share by weight; a tenant at its cap and a job type
-- whose window is full are never fetched from, nor are the given jobs at their own limit. Both shares count what is in
-- flight already, so that they hold, and nothing starves, when slots become free a few at a time.
-- index: trigger_lane, trigger_in_flight, trigger_unfinished_of_job, trigger_one_per_firing
-- returns: id, job_id, job_type, verdict
WITH lane AS MATERIALIZED (
    SELECT * FROM unnest(%(tenant_ids)s::bigint[], %(job_types)s::text[], %(priorities)s::smallint[])
        AS l(tenant_id, job_type, priority)
), level_load AS MATERIALIZED (
    SELECT tenant_id, priority, count(*) AS in_flight FROM jobs_trigger
    WHERE state IN ('queued', 'running') AND tenant_id = ANY(%(tenant_ids)s::bigint[])
    GROUP BY tenant_id, priority
), tenant_load AS MATERIALIZED (
    SELECT tenant_id, sum(in_flight)::bigint AS in_flight FROM level_load GROUP BY tenant_id
), type_load AS MATERIALIZED (
    SELECT job_type, count(*) FILTER (WHERE state = 'queued') AS queued, count(*) AS in_flight FROM jobs_trigger
    WHERE state IN ('queued', 'running')
    GROUP BY job_type
), type_room AS MATERIALIZED (
    SELECT c.job_type,
           least(%(window)s - coalesce(queued, 0), coalesce(c.cap, 2147483647) - coalesce(in_flight, 0)) AS room
    FROM unnest(%(capped_types)s::text[], %(type_caps)s::int[]) AS c(job_type, cap) LEFT JOIN type_load USING (job_type)
), open_lane AS MATERIALIZED (
    SELECT lane.*, tenant.weight, tenant.max_in_flight - coalesce(tenant_load.in_flight, 0) AS tenant_room,
           type_room.room AS type_room, coalesce(tenant_load.in_flight, 0) AS tenant_in_flight,
           coalesce(level_load.in_flight, 0) AS level_in_flight
    FROM lane
    JOIN tenants_tenant tenant ON tenant.id = lane.tenant_id
    JOIN type_room USING (job_type)
    LEFT JOIN tenant_load USING (tenant_id)
    LEFT JOIN level_load USING (tenant_id, priority)
    WHERE tenant.max_in_flight > coalesce(tenant_load.in_flight, 0) AND type_room.room > 0
), oldest AS (
    SELECT t.*, open_lane.weight, open_lane.tenant_room, open_lane.type_room, open_lane.tenant_in_flight,
           (open_lane.level_in_flight
            + row_number() OVER (PARTITION BY t.tenant_id, t.priority ORDER BY t.due_at, t.id))
               / (8 >> t.priority)::numeric AS level_rank
    FROM open_lane, LATERAL (
        SELECT id, job_id, tenant_id, job_type, priority, due_at, scheduled_for, state, origin, attempt_count,
               replay_count
        FROM jobs_trigger t
        WHERE t.tenant_id = open_lane.tenant_id AND t.job_type = open_lane.job_type
          AND t.priority = open_lane.priority AND t.state IN ('pending', 'retrying') AND NOT t.held
          AND t.due_at <= carillon_now() AND t.job_id <> ALL (%(full_jobs)s::uuid[])
        ORDER BY t.due_at
        LIMIT least(open_lane.tenant_room, open_lane.type_room, %(limit)s)) t
), of_tenant AS (
    SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY level_rank, due_at, id) AS tenant_rank
    FROM oldest
), of_type AS (
    SELECT *, (tenant_in_flight + tenant_rank) / weight::numeric AS turn,
           row_number() OVER (
               PARTITION BY job_type
               ORDER BY (tenant_in_flight + tenant_rank) / weight::numeric, due_at, id) AS type_rank
    FROM of_tenant
    WHERE tenant_rank <= tenant_room
), chosen AS MATERIALIZED (
    SELECT * FROM of_type
    WHERE type_rank <= type_room
    ORDER BY turn, due_at, id
    LIMIT %(limit)s
), judged AS (
    SELECT c.*, j.status, j.deleted_at, j.overlap_policy, j.misfire_policy, j.max_concurrent,
           -- What was tried once is not skipped any more, though a lost message made it pending again.
           c.state = 'pending' AND c.origin = 'schedule' AND c.attempt_count = 0 AND c.replay_count = 0 AS may_skip,
           -- Until it may be skipped no more, a trigger's due_at is its scheduled_for and its job's jitter.
           c.due_at + j.misfire_grace < carillon_now() AS missed,
           c.due_at + j.catchup_window < carillon_now() AS too_old,
           EXISTS (
               SELECT 1 FROM jobs_trigger later
               WHERE later.job_id = c.job_id AND later.scheduled_for > c.scheduled_for
                 AND later.due_at + j.misfire_grace < carillon_now()
                 AND later.state = 'pending' AND later.origin = 'schedule')
           -- After a long outage the later ones may still wait to be materialized.
           OR coalesce(j.next_fire_at + (c.due_at - c.scheduled_for) + j.misfire_grace < carillon_now(), false)
               AS later_missed,
           (SELECT count(*) FROM jobs_trigger other
            WHERE other.job_id = c.job_id AND other.id <> c.id
              AND other.state IN ('queued', 'running', 'retrying')) AS others,
           (SELECT count(*) FROM jobs_trigger other
            WHERE other.job_id = c.job_id AND other.id <> c.id
              AND other.state IN ('queued', 'running')) AS others_in_flight,
           row_number() OVER (PARTITION BY c.job_id ORDER BY c.due_at, c.id) AS job_rank
    FROM chosen c, LATERAL (
        SELECT status, deleted_at, overlap_policy, misfire_policy, misfire_grace, catchup_window, max_concurrent,
               next_fire_at
        FROM jobs_job WHERE id = c.job_id OFFSET 0) j
), verdicts AS (
    SELECT *, CASE
        WHEN deleted_at IS NOT NULL OR status NOT IN ('active', 'completed') THEN 'hold'
        WHEN may_skip AND missed AND misfire_policy = 'skip' THEN 'misfire'
        WHEN may_skip AND missed AND misfire_policy = 'fire_once' AND too_old THEN 'misfire'
        WHEN may_skip AND missed AND misfire_policy = 'fire_once' AND later_missed THEN 'coalesced'
        WHEN overlap_policy = 'skip' AND may_skip AND others > 0 THEN 'overlap'
        WHEN overlap_policy = 'skip' AND others_in_flight > 0 THEN 'wait'
        WHEN overlap_policy = 'allow' AND others_in_flight >= max_concurrent THEN 'wait'
        ELSE 'dispatch'
    END AS first_verdict
    FROM judged
)
SELECT id, job_id, job_type, CASE
    -- Of the triggers of one job judged fit together, only as many go as may run at once.
    WHEN first_verdict = 'dispatch'
     AND others_in_flight + count(*) FILTER (WHERE first_verdict = 'dispatch')
             OVER (PARTITION BY job_id ORDER BY job_rank)
         > CASE overlap_policy WHEN 'allow' THEN max_concurrent ELSE 1 END
    THEN 'wait' ELSE first_verdict END AS verdict
FROM verdicts
ORDER BY turn, due_at, id;

-- name: dispatch
-- Queue the chosen ones under a new fence. Committed before anything is published: the row is the outbox.
-- transition: pending, retrying -> queued
-- index: primary key
-- returns: id, fence, job_type
UPDATE jobs_trigger t SET
    state = 'queued', fence = t.fence + 1, queued_at = carillon_clock(), worker = '', lease_expires_at = NULL,
    job_version = (SELECT version FROM jobs_job WHERE id = t.job_id)
WHERE t.id = ANY(%(ids)s::uuid[]) AND CASE WHEN t.state IN ('pending', 'retrying') THEN NOT t.held END
RETURNING t.id, t.fence, t.job_type;

-- name: skip
-- End firings that are not to run, each with its reason.
-- transition: pending -> skipped
-- index: primary key
-- returns: id, reason
UPDATE jobs_trigger t SET state = 'skipped', reason = s.reason, finished_at = carillon_clock()
FROM unnest(%(ids)s::uuid[], %(reasons)s::text[]) AS s(id, reason)
WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = s.id AND t.state = 'pending'
RETURNING t.id, t.reason;

-- name: hold
-- Take triggers of jobs that are not active out of the dispatcher's sight until resume.
-- index: primary key
UPDATE jobs_trigger SET held = true
WHERE id = ANY(%(ids)s::uuid[]) AND state IN ('pending', 'retrying');

-- name: next_due
-- Seconds until the next trigger falls due, null when none waits.
-- index: trigger_due
SELECT extract(epoch FROM (
    SELECT due_at FROM jobs_trigger
    WHERE state IN ('pending', 'retrying') AND NOT held AND due_at > carillon_now()
    ORDER BY due_at LIMIT 1) - carillon_clock())::float AS seconds;
