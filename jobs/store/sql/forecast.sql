-- Future firings, as the schedules say.

-- name: in_minute
-- How many jobs of a tenant fire next within the minute from %(minute)s on. Of all tenants' jobs in that minute, at
-- most %(most)s are looked at.
-- index: job_next_fire
-- returns: own, looked_at
SELECT count(*) FILTER (WHERE tenant_id = %(tenant_id)s) AS own, count(*) AS looked_at
FROM (SELECT tenant_id FROM jobs_job
      WHERE status = 'active' AND next_fire_at IS NOT NULL
        AND next_fire_at >= %(minute)s AND next_fire_at < %(minute)s::timestamptz + interval '1 minute'
      ORDER BY next_fire_at LIMIT %(most)s) soon;

-- name: jobs_after
-- Jobs from %(after)s on by id, for a walk over all of them.
-- index: primary key
-- returns: the columns that a schedule needs, at most %(limit)s rows
SELECT id, tenant_id, status, schedule_type, cron_expression, timezone, "interval", run_at, starts_at, ends_at,
       dst_policy, cron_dialect, jitter, created_at, next_fire_at
FROM jobs_job WHERE id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: jobs_of_tenants
-- Living jobs of some tenants, none of them hidden, at most %(limit)s, in no order.
-- index: job_of_tenant
-- returns: the columns that a schedule needs, and those that a list of jobs shows
SELECT j.* FROM unnest(%(tenant_ids)s::bigint[]) AS whose(id), LATERAL (
    SELECT id, tenant_id, name, job_type, status, schedule_type, cron_expression, timezone, "interval", run_at, starts_at,
           ends_at, dst_policy, cron_dialect, jitter, created_at, next_fire_at
    FROM jobs_job WHERE tenant_id = whose.id AND deleted_at IS NULL AND workflow_id IS NULL ORDER BY id DESC LIMIT %(limit)s) j
LIMIT %(limit)s;

-- name: next_jobs
-- Active jobs in the order in which they fire next: the first %(limit)s among the first %(most)s of all tenants. If
-- %(tenant_ids)s is not null, only jobs of these tenants.
-- index: job_next_fire
-- returns: id, tenant_id, name, job_type, next_fire_at
SELECT id, tenant_id, name, job_type, next_fire_at
FROM (SELECT id, tenant_id, name, job_type, next_fire_at FROM jobs_job
      WHERE status = 'active' AND next_fire_at IS NOT NULL ORDER BY next_fire_at LIMIT %(most)s) soon
WHERE %(tenant_ids)s::bigint[] IS NULL OR tenant_id = ANY(%(tenant_ids)s::bigint[])
ORDER BY next_fire_at LIMIT %(limit)s;

-- name: pace
-- How many firings started in each of the last whole minutes, of some tenants or of all.
-- index: primary key of jobs_activityminute
-- returns: minute, started; only minutes in which firings started
SELECT minute, sum(started)::bigint AS started
FROM jobs_activityminute
WHERE minute = ANY(ARRAY(SELECT date_trunc('minute', carillon_now(), 'UTC') - n * interval '1 minute'
                         FROM generate_series(1, %(minutes)s) n))
  AND (%(tenant_ids)s::bigint[] IS NULL OR tenant_id = ANY(%(tenant_ids)s::bigint[]))
GROUP BY minute HAVING sum(started) > 0 ORDER BY minute;
