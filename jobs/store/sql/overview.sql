-- The figures that the console's first page shows beside those of metrics.sql. Each read is bounded by the number of
-- triggers that may be in flight, or by a limit, however many tenants there are.

-- name: in_flight
-- Triggers in flight, counted three ways in one read: by job type and state, by worker, and by tenant, the tenants with
-- most first. Only those of %(tenant_ids)s; null: of all tenants.
-- index: trigger_in_flight
-- returns: job_type and state, or worker, or tenant_id (the others are null); count, the seconds since the oldest was
--     queued, and how many leases are over
SELECT job_type, state, worker, tenant_id, count(*) AS count,
       greatest(0, extract(epoch FROM carillon_clock() - min(queued_at)))::float AS oldest_seconds,
       count(*) FILTER (WHERE state = 'running' AND lease_expires_at < (SELECT carillon_now())) AS expired
FROM jobs_trigger
WHERE phase = 'in_flight' AND (%(tenant_ids)s::bigint[] IS NULL OR tenant_id = ANY(%(tenant_ids)s::bigint[]))
GROUP BY GROUPING SETS ((job_type, state), (worker), (tenant_id))
ORDER BY grouping(tenant_id) DESC, count(*) DESC, tenant_id
LIMIT %(limit)s;

-- name: due
-- How many triggers of each lane are due, counted up to %(limit)s.
-- index: trigger_lane
-- returns: tenant_id, count
SELECT lane.tenant_id, (
    SELECT count(*) FROM (
        SELECT FROM jobs_trigger t
        WHERE t.tenant_id = lane.tenant_id AND t.job_type = lane.job_type AND t.priority = lane.priority
          AND t.phase IN ('pending', 'retrying') AND NOT t.held AND t.due_at <= (SELECT carillon_now())
        ORDER BY t.due_at LIMIT %(limit)s) counted) AS count
FROM unnest(%(tenant_ids)s::bigint[], %(job_types)s::text[], %(priorities)s::smallint[])
    AS lane(tenant_id, job_type, priority);

-- name: dispatched
-- How many triggers of tenants were dispatched in the present minute and the one before.
-- index: primary key of jobs_activityminute
-- returns: tenant_id, minute, count
SELECT tenant_id, minute, sum(coalesce(dispatched, 0))::bigint AS count
FROM jobs_activityminute
WHERE minute IN (date_trunc('minute', carillon_now(), 'UTC'), date_trunc('minute', carillon_now(), 'UTC') - interval '1 minute')
  AND tenant_id = ANY(%(tenant_ids)s::bigint[])
GROUP BY tenant_id, minute;

-- name: breakers
-- Targets whose circuit breakers are open, %(limit)s at most. Only those of %(tenant_ids)s; null: of all tenants.
-- index: breaker_not_closed, primary key of tenants_tenant
-- returns: target, tenant (its slug)
SELECT open.target, tenant.slug AS tenant
FROM (SELECT target, tenant_id, probe_at FROM jobs_breaker
      WHERE state <> 'closed' AND (%(tenant_ids)s::bigint[] IS NULL OR tenant_id = ANY(%(tenant_ids)s::bigint[]))
      ORDER BY probe_at LIMIT %(limit)s) open, LATERAL (
    SELECT slug FROM tenants_tenant WHERE id = open.tenant_id OFFSET 0) tenant
ORDER BY open.target, tenant.slug;

-- name: troubles
-- Failures of the last hour, by tenant and job type, from the latest %(limit)s counts of a minute that hold any. Only
-- those of %(tenant_ids)s; null: of all tenants.
-- index: activityminute_troubled
-- returns: tenant_id, job_type, missed (skipped, because dispatch was late), overlapped (skipped, because the job still
--     ran), lost (attempts), dead (triggers)
SELECT tenant_id, job_type, sum(coalesce(skipped_misfire, 0) + coalesce(skipped_coalesced, 0))::bigint AS missed,
       coalesce(sum(skipped_overlap), 0)::bigint AS overlapped, coalesce(sum(ended_lost), 0)::bigint AS lost,
       sum(coalesce(buried_exhausted, 0) + coalesce(buried_permanent, 0) + coalesce(buried_poison, 0)
           + coalesce(buried_lost, 0))::bigint AS dead
FROM (SELECT tenant_id, job_type, skipped_misfire, skipped_coalesced, skipped_overlap, ended_lost, buried_exhausted,
             buried_permanent, buried_poison, buried_lost
      FROM jobs_activityminute
      WHERE minute > (SELECT carillon_now()) - interval '1 hour'
        AND tenant_id > 0  -- not all tenants together
        AND coalesce(skipped_misfire, skipped_coalesced, skipped_overlap, ended_lost, buried_exhausted,
                     buried_permanent, buried_poison, buried_lost) IS NOT NULL
        AND (%(tenant_ids)s::bigint[] IS NULL OR tenant_id = ANY(%(tenant_ids)s::bigint[]))
      ORDER BY minute DESC LIMIT %(limit)s) latest
GROUP BY tenant_id, job_type;
