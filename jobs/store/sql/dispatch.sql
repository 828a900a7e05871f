-- name: due_lanes
-- The (tenant, job type, priority) lanes with a trigger that waits, by a loose index scan that jumps from lane to lane:
-- its cost is the number of lanes, whatever their depth.
-- A suspended tenant's lanes are jumped over without a look inside.
-- index: trigger_lane
-- plan: kept
-- returns: tenant_id, job_type, priority, whether the tenant is frozen, whether one is due, and the seconds until the
-- next one falls due (or null)
WITH RECURSIVE lane AS (
    (SELECT tenant_id, job_type, priority FROM jobs_trigger
     WHERE phase IN ('pending', 'retrying') AND NOT held
     ORDER BY tenant_id, job_type, priority LIMIT 1)
    UNION ALL
    SELECT following.* FROM lane, LATERAL (
        SELECT tenant_id, job_type, priority FROM jobs_trigger t
        WHERE t.phase IN ('pending', 'retrying') AND NOT t.held
          AND (t.tenant_id, t.job_type, t.priority) > (lane.tenant_id, lane.job_type, lane.priority)
        ORDER BY t.tenant_id, t.job_type, t.priority LIMIT 1) following
)
SELECT lane.tenant_id, lane.job_type, lane.priority, tenant.status = 'frozen' AS frozen,
       -- The oldest, in order: to EXISTS, statistics of a time when all was pending would recommend the whole table.
       (SELECT t.due_at FROM jobs_trigger t
        WHERE t.tenant_id = lane.tenant_id AND t.job_type = lane.job_type AND t.priority = lane.priority
          AND t.phase IN ('pending', 'retrying') AND NOT t.held
        ORDER BY t.due_at LIMIT 1) <= carillon_now() AS due,
       extract(epoch FROM (
           SELECT t.due_at FROM jobs_trigger t
           WHERE t.tenant_id = lane.tenant_id AND t.job_type = lane.job_type AND t.priority = lane.priority
             AND t.phase IN ('pending', 'retrying') AND NOT t.held AND t.due_at > carillon_now()
           ORDER BY t.due_at LIMIT 1) - carillon_clock())::float AS seconds_to_next
FROM lane, LATERAL (SELECT status FROM tenants_tenant WHERE id = lane.tenant_id OFFSET 0) tenant
WHERE tenant.status <> 'suspended';

-- name: lock_tenants
-- Tenants that may be served now, locked so that caps and overlap stay exact with several dispatchers, and so that a
-- pause or cancel that was acknowledged holds: actions lock the same row.
-- locks: tenant rows, SKIP LOCKED, held to the end of the dispatch transaction
-- plan: kept
-- returns: id, status, rate_per_second, rate_burst
SELECT id, status, rate_per_second, rate_burst FROM tenants_tenant
WHERE id = ANY(%(tenant_ids)s::bigint[]) AND status <> 'suspended'
  AND (%(term)s::bigint IS NULL OR EXISTS (
       SELECT 1 FROM jobs_lease WHERE name = %(lease)s AND term = %(term)s AND expires_at > carillon_clock()))
FOR NO KEY UPDATE SKIP LOCKED;

-- name: pick
-- Choose who goes next (DESIGN §8) among the lanes of locked tenants, and judge each by its job's policies (§9):
-- dispatch, hold (the job is not active), wait (park it), replace (stop the others, then as wait), or an end with its
-- reason. Within a tenant priorities share 8:4:2:1; tenants share by weight; a tenant at its cap and a job type whose
-- window is full are never fetched from. Both shares count what is in flight already, so that they hold, and nothing
-- starves, when slots become free a few at a time. Exact under the locks of the tenants and queues named.
-- index: trigger_lane, trigger_in_flight, trigger_unfinished_of_job, trigger_one_per_firing, trigger_key_in_flight
-- plan: kept
-- returns: id, job_id, tenant_id, job_type, scheduled_for, overlap_policy, target, what its queue held and had room for, suspect,
-- delivery, verdict
WITH lane AS MATERIALIZED (
    SELECT * FROM unnest(%(tenant_ids)s::bigint[], %(job_types)s::text[], %(priorities)s::smallint[])
        AS l(tenant_id, job_type, priority)
), load AS MATERIALIZED (
    SELECT tenant_id, job_type, priority, count(*) FILTER (WHERE state = 'queued') AS queued, count(*) AS in_flight
    FROM jobs_trigger WHERE phase = 'in_flight'
    GROUP BY tenant_id, job_type, priority
), level_load AS MATERIALIZED (
    SELECT tenant_id, priority, sum(in_flight)::bigint AS in_flight FROM load GROUP BY tenant_id, priority
), tenant_load AS MATERIALIZED (
    SELECT tenant_id, sum(in_flight)::bigint AS in_flight FROM load GROUP BY tenant_id
), type_load AS MATERIALIZED (
    SELECT job_type, sum(queued)::bigint AS queued, sum(in_flight)::bigint AS in_flight FROM load GROUP BY job_type
), type_room AS MATERIALIZED (
    SELECT c.job_type,
           coalesce(queued, 0) AS queued,
           least(c."window" - coalesce(queued, 0), coalesce(c.cap, 2147483647) - coalesce(in_flight, 0)) AS room
    FROM unnest(%(queues)s::text[], %(windows)s::int[], %(type_caps)s::int[]) AS c(job_type, "window", cap)
    LEFT JOIN type_load USING (job_type)
), open_lane AS MATERIALIZED (
    SELECT lane.*, tenant.weight,
           least(tenant.max_in_flight - coalesce(tenant_load.in_flight, 0), coalesce(rated.tokens, 2147483647))
               AS tenant_room,
           type_room.room AS type_room, type_room.queued AS type_queued,
           coalesce(tenant_load.in_flight, 0) AS tenant_in_flight,
           coalesce(level_load.in_flight, 0) AS level_in_flight
    FROM lane
    JOIN tenants_tenant tenant ON tenant.id = lane.tenant_id
    JOIN type_room USING (job_type)
    LEFT JOIN tenant_load USING (tenant_id)
    LEFT JOIN level_load USING (tenant_id, priority)
    LEFT JOIN unnest(%(rated_tenants)s::bigint[], %(tokens)s::int[]) AS rated(tenant_id, tokens) USING (tenant_id)
    WHERE tenant.max_in_flight > coalesce(tenant_load.in_flight, 0) AND type_room.room > 0
      AND coalesce(rated.tokens, 1) > 0
), oldest AS (
    SELECT t.*, open_lane.weight, open_lane.tenant_room, open_lane.type_room, open_lane.type_queued,
           open_lane.tenant_in_flight,
           (open_lane.level_in_flight
            + row_number() OVER (PARTITION BY t.tenant_id, t.priority ORDER BY t.due_at, t.id))
               / (8 >> t.priority)::float8 AS level_rank
    FROM open_lane, LATERAL (
        SELECT id, job_id, tenant_id, job_type, priority, due_at, scheduled_for, state, origin, attempt_count,
               replay_count, suspect
        FROM jobs_trigger t
        WHERE t.tenant_id = open_lane.tenant_id AND t.job_type = open_lane.job_type
          AND t.priority = open_lane.priority AND t.phase IN ('pending', 'retrying') AND NOT t.held
          AND t.due_at <= carillon_now()
        ORDER BY t.due_at
        LIMIT least(open_lane.tenant_room, open_lane.type_room, %(limit)s)) t
), of_tenant AS (
    SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY level_rank, due_at, id) AS tenant_rank
    FROM oldest
), of_type AS (
    SELECT *, (tenant_in_flight + tenant_rank) / weight::float8 AS turn,
           row_number() OVER (
               PARTITION BY job_type
               ORDER BY (tenant_in_flight + tenant_rank) / weight::float8, due_at, id) AS type_rank
    FROM of_tenant
    WHERE tenant_rank <= tenant_room
), chosen AS MATERIALIZED (
    SELECT * FROM of_type
    WHERE type_rank <= type_room
    ORDER BY turn, due_at, id
    LIMIT %(limit)s
), judged AS (
    SELECT c.*, j.status, j.deleted_at, j.overlap_policy, j.misfire_policy, j.max_concurrent, j.max_catchup, j.target,
           j.concurrency_key, j.delivery,
           CASE WHEN j.concurrency_key <> '' THEN (
               SELECT count(*) FROM jobs_trigger k
               WHERE k.tenant_id = c.tenant_id AND k.concurrency_key = j.concurrency_key AND k.concurrency_key <> ''
                 AND k.phase = 'in_flight') END AS key_in_flight,
           -- What was tried once is not skipped any more, though a lost message made it pending again.
           c.state = 'pending' AND c.origin = 'schedule' AND c.attempt_count = 0 AND c.replay_count = 0 AS may_skip,
           -- Until it may be skipped no more, a trigger's due_at is its scheduled_for and its job's jitter.
           c.due_at + j.misfire_grace < carillon_now() AS missed,
           c.due_at + j.catchup_window < carillon_now() AS too_old,
           -- Each look at the job's other firings only where its policy asks for it.
           CASE WHEN c.due_at + j.misfire_grace < carillon_now() AND j.misfire_policy IN ('fire_once', 'backfill') THEN (
               SELECT count(*) FROM jobs_trigger later
               WHERE later.job_id = c.job_id AND later.scheduled_for > c.scheduled_for
                 AND later.due_at + j.misfire_grace < carillon_now()
                 AND later.phase = 'pending' AND later.origin = 'schedule')
               -- After a long outage the later ones may still wait to be materialized.
               + coalesce(j.next_fire_at + (c.due_at - c.scheduled_for) + j.misfire_grace < carillon_now(), false)::int
           END AS later_missed,
           CASE WHEN j.overlap_policy IN ('collapse', 'replace') THEN EXISTS (
               SELECT 1 FROM jobs_trigger newer
               WHERE newer.job_id = c.job_id AND newer.scheduled_for > c.scheduled_for
                 AND newer.due_at <= carillon_now() AND newer.phase = 'pending' AND NOT newer.held
                 AND newer.origin = 'schedule') END AS newer_due,
           CASE WHEN j.overlap_policy = 'queue' THEN EXISTS (
               SELECT 1 FROM jobs_trigger older
               WHERE older.job_id = c.job_id AND older.scheduled_for < c.scheduled_for
                 AND older.due_at <= carillon_now() AND older.phase = 'pending' AND older.origin = 'schedule') END
               AS older_waits,
           others.unfinished AS others, others.in_flight AS others_in_flight
    FROM chosen c, LATERAL (
        SELECT status, deleted_at, overlap_policy, misfire_policy, misfire_grace, catchup_window, max_concurrent,
               max_catchup, next_fire_at, concurrency_key, target, delivery
        FROM jobs_job WHERE id = c.job_id OFFSET 0) j, LATERAL (
        SELECT count(*) AS unfinished, count(*) FILTER (WHERE other.phase = 'in_flight') AS in_flight
        FROM jobs_trigger other
        WHERE other.job_id = c.job_id AND other.id <> c.id AND other.phase IN ('in_flight', 'retrying')) others
), classed AS (
    -- late: its policy lets it run after its time, so it is never skipped. serial: one of the job at a time.
    SELECT *, late OR NOT may_skip AS must_run,
           overlap_policy <> 'allow' OR origin = 'backfill' OR late AND misfire_policy = 'backfill' AS serial
    FROM judged, LATERAL (
        SELECT origin IN ('catchup', 'backfill')
               OR may_skip AND missed AND misfire_policy IN ('fire_all', 'backfill') AS late) l
), verdicts AS (
    SELECT *, CASE
        WHEN deleted_at IS NOT NULL OR status NOT IN ('active', 'completed') THEN 'hold'
        WHEN may_skip AND missed AND misfire_policy = 'skip' THEN 'misfire'
        WHEN may_skip AND missed AND misfire_policy IN ('fire_once', 'backfill') AND too_old THEN 'misfire'
        WHEN may_skip AND missed AND misfire_policy = 'fire_once' AND later_missed > 0 THEN 'coalesced'
        WHEN may_skip AND missed AND misfire_policy = 'backfill' AND later_missed >= max_catchup THEN 'misfire'
        WHEN NOT serial THEN CASE WHEN others_in_flight >= max_concurrent THEN 'wait' ELSE 'dispatch' END
        WHEN must_run THEN CASE WHEN others_in_flight > 0 THEN 'wait' ELSE 'dispatch' END
        WHEN overlap_policy = 'skip' AND others > 0 THEN 'overlap'
        WHEN overlap_policy = 'queue' AND (others > 0 OR older_waits) THEN 'wait'
        WHEN overlap_policy = 'collapse' AND others > 0 THEN CASE WHEN newer_due THEN 'collapsed' ELSE 'wait' END
        WHEN overlap_policy = 'replace' AND newer_due THEN 'superseded'
        WHEN overlap_policy = 'replace' AND others > 0 THEN 'replace'
        ELSE 'dispatch'
    END AS first_verdict
    FROM classed
), counted AS (
    SELECT *, count(*) FILTER (WHERE first_verdict = 'dispatch') OVER (PARTITION BY job_id ORDER BY due_at, id) AS nth
    FROM verdicts
), by_job AS (
    SELECT *, CASE
        -- Of the triggers of one job judged fit together, only as many go as may run at once.
        WHEN first_verdict = 'dispatch'
         AND others_in_flight + nth > CASE WHEN serial THEN 1 ELSE max_concurrent END
        THEN CASE WHEN must_run OR overlap_policy IN ('queue', 'allow') THEN 'wait'
                  WHEN overlap_policy = 'collapse' THEN CASE WHEN newer_due THEN 'collapsed' ELSE 'wait' END
                  ELSE 'overlap' END
        ELSE first_verdict END AS job_verdict
    FROM counted
)
SELECT id, job_id, tenant_id, job_type, scheduled_for, overlap_policy, target, type_queued, type_room, suspect, delivery, CASE
    -- And of those of one concurrency key, over all its jobs.
    WHEN job_verdict = 'dispatch' AND concurrency_key <> ''
     AND key_in_flight + count(*) FILTER (WHERE job_verdict = 'dispatch') OVER (
             PARTITION BY tenant_id, concurrency_key ORDER BY turn, due_at, id) > max_concurrent
    THEN 'wait' ELSE job_verdict END AS verdict
FROM by_job
ORDER BY turn, due_at, id;

-- name: dispatch
-- Queue the chosen ones under a new fence. Committed before anything is published: the row is the outbox.
-- transition: pending, retrying -> queued
-- index: primary key
-- plan: kept
-- returns: id, fence, job_type
UPDATE jobs_trigger t SET
    state = 'queued', fence = t.fence + 1, queued_at = carillon_clock(), worker = '', lease_expires_at = NULL,
    (job_version, concurrency_key) = (SELECT version, concurrency_key FROM jobs_job WHERE id = t.job_id)
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

-- name: supersede
-- Cancel firings that a newer one of their job has overtaken.
-- transition: pending -> cancelled
-- index: primary key
-- returns: id
UPDATE jobs_trigger SET state = 'cancelled', reason = 'superseded', finished_at = carillon_clock()
WHERE id = ANY(%(ids)s::uuid[]) AND state = 'pending'
RETURNING id;

-- name: freeze
-- What falls due while its tenant is frozen is not to run (tenants.models). What was tried before waits for the thaw.
-- transition: pending -> skipped
-- index: trigger_lane
-- returns: id, reason
UPDATE jobs_trigger SET state = 'skipped', reason = 'frozen', finished_at = carillon_clock()
WHERE state = 'pending' AND attempt_count = 0 AND id = ANY(ARRAY(
    SELECT t.id FROM unnest(%(tenant_ids)s::bigint[], %(job_types)s::text[], %(priorities)s::smallint[])
        AS l(tenant_id, job_type, priority), LATERAL (
        SELECT id, state, attempt_count FROM jobs_trigger t
        WHERE t.tenant_id = l.tenant_id AND t.job_type = l.job_type AND t.priority = l.priority
          AND t.phase IN ('pending', 'retrying') AND NOT t.held AND t.due_at <= carillon_now()
        ORDER BY t.due_at LIMIT %(limit)s) t
    LIMIT %(limit)s))
RETURNING id, reason;
