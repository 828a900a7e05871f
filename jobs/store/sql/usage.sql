-- How a tenant stands with its quotas, and the service it got recently. Every read is bounded, however many rows there
-- are.

-- name: load
-- A tenant's triggers in flight.
-- index: trigger_in_flight
-- returns: queued, running
SELECT count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running
FROM jobs_trigger WHERE tenant_id = %(tenant_id)s AND phase = 'in_flight';

-- name: latest_starts
-- The latest attempts of all tenants since %(share_since)s, and how many of them are this tenant's. Also how long its
-- own firings waited, since %(since)s, from falling due to their first start. Ids follow time: %(after)s only bounds
-- the search, generously.
-- index: primary keys
-- returns: starts, own_starts, first_at (of those counted), cut_off (there were more), waits (in seconds; p50, p95,
-- p99), waited (how many)
WITH latest AS MATERIALIZED (
    SELECT tenant_id, trigger_id, number, started_at FROM jobs_attempt
    WHERE id >= %(after)s::uuid ORDER BY id DESC LIMIT %(limit)s
), waits AS (
    SELECT extract(epoch FROM a.started_at - t.due_at)::float AS seconds
    FROM latest a, LATERAL (SELECT due_at FROM jobs_trigger WHERE id = a.trigger_id OFFSET 0) t
    -- For a trigger that has failed once, due_at has become the end of its back-off.
    WHERE a.tenant_id = %(tenant_id)s AND a.number = 1 AND a.started_at > %(since)s AND t.due_at <= a.started_at
)
SELECT count(*) AS starts, count(*) FILTER (WHERE tenant_id = %(tenant_id)s) AS own_starts,
       min(started_at) AS first_at, (SELECT count(*) FROM latest) = %(limit)s AS cut_off,
       (SELECT percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY seconds) FROM waits) AS waits,
       (SELECT count(*) FROM waits) AS waited
FROM latest WHERE started_at > %(share_since)s;

-- name: late_tenants
-- How many tenants had, since %(since)s, a firing whose first start was later than %(late)s after it was due. Of the
-- latest %(limit)s attempts of all tenants. Ids follow time: %(after)s only bounds the search, generously.
-- index: primary keys
-- returns: count
WITH latest AS MATERIALIZED (
    SELECT tenant_id, trigger_id, number, started_at FROM jobs_attempt
    WHERE id >= %(after)s::uuid ORDER BY id DESC LIMIT %(limit)s
)
SELECT count(DISTINCT a.tenant_id) AS count
FROM latest a, LATERAL (SELECT due_at FROM jobs_trigger WHERE id = a.trigger_id OFFSET 0) t
WHERE a.number = 1 AND a.started_at > %(since)s AND a.started_at > t.due_at + %(late)s::interval;

-- name: own_waits
-- How long a tenant's latest firings waited from falling due to their start. For tenants that fire seldom, about which
-- the latest attempts of all tenants say little.
-- index: trigger_of_tenant
-- returns: waits (in seconds; p50, p95, p99), waited (how many)
WITH latest AS MATERIALIZED (
    SELECT attempt_count, due_at, started_at FROM jobs_trigger
    WHERE tenant_id = %(tenant_id)s AND tenant_id > 0 ORDER BY id DESC LIMIT %(limit)s
)
SELECT percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (
           ORDER BY extract(epoch FROM started_at - due_at)::float) AS waits, count(*) AS waited
FROM latest WHERE attempt_count = 1 AND started_at > %(since)s AND due_at <= started_at;

-- name: lanes
-- Triggers of some tenants that are due and wait in dispatch's sight. Reads from lane to lane, as dispatch's sweep
-- does: of %(lanes)s lanes, the %(shown)s that have waited longest, each counted up to %(limit)s.
-- index: trigger_lane
-- returns: tenant_id, job_type, priority, count, oldest_seconds, oldest_id; the longest wait first
WITH RECURSIVE lane AS (
    SELECT first.* FROM unnest(%(tenant_ids)s::bigint[]) AS whose(id), LATERAL (
        SELECT id, tenant_id, job_type, priority, due_at FROM jobs_trigger
        WHERE tenant_id = whose.id AND phase IN ('pending', 'retrying') AND NOT held
        ORDER BY job_type, priority, due_at LIMIT 1) first
    UNION ALL
    SELECT following.* FROM lane, LATERAL (
        SELECT id, tenant_id, job_type, priority, due_at FROM jobs_trigger t
        WHERE t.tenant_id = lane.tenant_id AND t.phase IN ('pending', 'retrying') AND NOT t.held
          AND (t.job_type, t.priority) > (lane.job_type, lane.priority)
        ORDER BY t.job_type, t.priority, t.due_at LIMIT 1) following
)
SELECT longest.tenant_id, longest.job_type, longest.priority, counted.count,
       extract(epoch FROM (SELECT carillon_now()) - longest.due_at)::float AS oldest_seconds, longest.id AS oldest_id
FROM (SELECT * FROM (SELECT * FROM lane LIMIT %(lanes)s) known WHERE due_at <= (SELECT carillon_now())
      ORDER BY due_at LIMIT %(shown)s) longest, LATERAL (
    SELECT count(*) AS count FROM (
        SELECT FROM jobs_trigger t
        WHERE t.tenant_id = longest.tenant_id AND t.job_type = longest.job_type AND t.priority = longest.priority
          AND t.phase IN ('pending', 'retrying') AND NOT t.held AND t.due_at <= (SELECT carillon_now())
        ORDER BY t.due_at LIMIT %(limit)s) c) counted
ORDER BY longest.due_at;

-- name: loads
-- How many triggers some tenants have in flight: as many as their caps let through.
-- index: trigger_in_flight
-- returns: tenant_id, count
SELECT tenant_id, count(*) AS count FROM jobs_trigger
WHERE tenant_id = ANY(%(tenant_ids)s::bigint[]) AND phase = 'in_flight' GROUP BY tenant_id;

-- name: deaths
-- How many dead letters some tenants have among the triggers made since %(after)s, each tenant's counted up to
-- %(limit)s.
-- index: trigger_dead_letter
-- returns: tenant_id, count
SELECT whose.id AS tenant_id, counted.count FROM unnest(%(tenant_ids)s::bigint[]) AS whose(id), LATERAL (
    SELECT count(*) AS count FROM (
        SELECT FROM jobs_trigger t
        WHERE t.tenant_id = whose.id AND t.phase = 'dead' AND t.dismissed_at IS NULL AND t.id >= %(after)s::uuid
        ORDER BY t.id DESC LIMIT %(limit)s) d) counted;

-- name: failing_jobs
-- The jobs of a tenant that failed most since %(since)s, by its latest %(limit)s failed attempts. Ids follow time:
-- %(after)s only bounds the search, generously.
-- index: jobs_attempt_failed
-- returns: job_id, failures, error_code and failed_at (of the latest), most first, %(jobs)s rows at most
SELECT job_id, count(*) AS failures, (array_agg(error_code ORDER BY id DESC))[1] AS error_code,
       max(started_at) AS failed_at
FROM (SELECT id, job_id, error_code, started_at FROM jobs_attempt
      WHERE tenant_id = %(tenant_id)s AND error_code <> '' AND id >= %(after)s::uuid
        AND started_at >= %(since)s::timestamptz
      ORDER BY id DESC LIMIT %(limit)s) latest
GROUP BY job_id ORDER BY failures DESC, failed_at DESC LIMIT %(jobs)s;
