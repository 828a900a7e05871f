-- The figures that monitoring reads every few seconds. Each read is bounded by what may be in flight, by the number of
-- lanes, queues and processes, or by a limit; nothing counts a table.

-- name: in_flight
-- Queued and running triggers by job type: as many as windows and caps let through.
-- index: trigger_in_flight
-- returns: job_type, state, count, and the seconds since the oldest was queued
SELECT job_type, state, count(*) AS count,
       greatest(0, extract(epoch FROM carillon_clock() - min(queued_at)))::float AS oldest_seconds
FROM jobs_trigger WHERE phase = 'in_flight' GROUP BY job_type, state;

-- name: waiting
-- How late the oldest due and waiting trigger is, by job type: from lane to lane as dispatch's sweep. Suspended tenants
-- are left out, since their triggers wait on purpose.
-- index: trigger_lane
-- returns: job_type, lag_seconds (0: nothing is due)
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
SELECT job_type, max(greatest(0, extract(epoch FROM carillon_clock() - (
           SELECT t.due_at FROM jobs_trigger t
           WHERE t.tenant_id = lane.tenant_id AND t.job_type = lane.job_type AND t.priority = lane.priority
             AND t.phase IN ('pending', 'retrying') AND NOT t.held
           ORDER BY t.due_at LIMIT 1))))::float AS lag_seconds
FROM lane, LATERAL (SELECT status FROM tenants_tenant WHERE id = lane.tenant_id OFFSET 0) tenant
WHERE tenant.status <> 'suspended'
GROUP BY job_type;

-- name: queues
-- What dispatchers know of each queue, and how many it was ever given.
-- returns: job_type, window, rate, dispatched
SELECT job_type, "window", rate, dispatched FROM jobs_queue;

-- name: leases
-- Who leads, under which term, and for how much longer unless it is renewed (below 0: it ran out).
-- index: primary key
-- returns: name, holder, term, seconds_left
SELECT name, holder, term, extract(epoch FROM expires_at - carillon_clock())::float AS seconds_left
FROM jobs_lease ORDER BY name LIMIT %(limit)s;

-- name: outcomes
-- The latest attempts that began within the last minute, by how they stand now. Ids follow time: %(after)s bounds the
-- search, generously.
-- index: primary keys
-- returns: state, count
SELECT state, count(*) AS count FROM (
    SELECT state, started_at FROM jobs_attempt WHERE id >= %(after)s::uuid ORDER BY id DESC LIMIT %(limit)s) latest
WHERE started_at > carillon_now() - interval '1 minute'
GROUP BY state;

-- name: statistics
-- Figures that Postgres counts anyway: rows that became triggers by whichever way, and effects found made already, each
-- of which is an update of the record. They start again when statistics are reset, as counters may.
-- returns: materialized, duplicates_prevented
SELECT coalesce(sum(n_tup_ins) FILTER (WHERE relname = 'jobs_trigger'), 0)::bigint AS materialized,
       coalesce(sum(n_tup_upd) FILTER (WHERE relname = 'jobs_effect'), 0)::bigint AS duplicates_prevented
FROM pg_stat_user_tables WHERE relname IN ('jobs_trigger', 'jobs_effect');
