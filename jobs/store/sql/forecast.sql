-- What fires in the time to come, as schedules say.

-- name: in_minute
-- How many jobs of a tenant fire next within the minute from %(minute)s on. Of all tenants' jobs in it, at most %(most)s
-- are looked at.
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
-- returns: what a schedule needs, at most %(limit)s
SELECT id, tenant_id, status, schedule_type, cron_expression, timezone, "interval", run_at, starts_at, ends_at,
       dst_policy, cron_dialect, jitter, created_at, next_fire_at
FROM jobs_job WHERE id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: jobs_of_tenants
-- Living jobs of some tenants, none of them hidden, at most %(limit)s, in no order.
-- index: job_of_tenant
-- returns: what a schedule needs, and what a list of them shows
SELECT j.* FROM unnest(%(tenant_ids)s::bigint[]) AS whose(id), LATERAL (
    SELECT id, tenant_id, name, job_type, status, schedule_type, cron_expression, timezone, "interval", run_at, starts_at,
           ends_at, dst_policy, cron_dialect, jitter, created_at, next_fire_at
    FROM jobs_job WHERE tenant_id = whose.id AND deleted_at IS NULL AND workflow_id IS NULL ORDER BY id DESC LIMIT %(limit)s) j
LIMIT %(limit)s;

-- name: next_jobs
-- Active jobs in the order in which they fire next: the first %(limit)s, of %(tenant_ids)s alone if there are some, among
-- the first %(most)s of all tenants.
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
-- returns: minute, started; of minutes in which some did
SELECT minute, sum(started)::bigint AS started
FROM jobs_activityminute
WHERE minute = ANY(ARRAY(SELECT date_trunc('minute', carillon_now(), 'UTC') - n * interval '1 minute'
                         FROM generate_series(1, %(minutes)s) n))
  AND (%(tenant_ids)s::bigint[] IS NULL OR tenant_id = ANY(%(tenant_ids)s::bigint[]))
GROUP BY minute HAVING sum(started) > 0 ORDER BY minute;
