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
