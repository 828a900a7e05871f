-- How a tenant stands with its quotas, and what it got lately. Every read is bounded, however much there is.

-- name: load
-- A tenant's triggers in flight.
-- index: trigger_in_flight
-- returns: queued, running
SELECT count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running
FROM jobs_trigger WHERE tenant_id = %(tenant_id)s AND phase = 'in_flight';

-- name: latest_starts
-- The latest attempts of all tenants, and of them how many are this one's, since %(share_since)s; and how long its own
-- firings waited, since %(since)s, from falling due to their first start. Ids follow time: %(after)s only bounds the
-- search, generously.
-- index: primary keys
-- returns: starts, own_starts, first_at (of those counted), waits (in seconds; p50, p95, p99), waited (how many)
WITH latest AS MATERIALIZED (
    SELECT tenant_id, trigger_id, number, started_at FROM jobs_attempt
    WHERE id >= %(after)s::uuid ORDER BY id DESC LIMIT %(limit)s
), waits AS (
    SELECT extract(epoch FROM a.started_at - t.due_at)::float AS seconds
    FROM latest a, LATERAL (SELECT due_at FROM jobs_trigger WHERE id = a.trigger_id OFFSET 0) t
    -- Of a trigger that has failed once, due_at has become the end of its back-off.
    WHERE a.tenant_id = %(tenant_id)s AND a.number = 1 AND a.started_at > %(since)s AND t.due_at <= a.started_at
)
SELECT count(*) AS starts, count(*) FILTER (WHERE tenant_id = %(tenant_id)s) AS own_starts,
       min(started_at) AS first_at, (SELECT count(*) FROM latest) = %(limit)s AS cut_off,
       (SELECT percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY seconds) FROM waits) AS waits,
       (SELECT count(*) FROM waits) AS waited
FROM latest WHERE started_at > %(share_since)s;

-- name: own_waits
-- How long a tenant's latest firings waited from falling due to their start: for tenants that fire seldom, about whom
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
