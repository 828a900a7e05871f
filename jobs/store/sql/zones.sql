-- The rules of time zones: by which release of the time zone database the next instants of jobs were computed, and what
-- a new release changes about them (jobs.engine.firing.zones).

-- name: look
-- The release by which the next instants were last computed, and when a leader last worked under it.
-- returns: version, seen_at; no row before the first leader
SELECT version, seen_at FROM jobs_zonerules;

-- name: touch
-- Note that a leader works under this release. If another beat notes it at this moment, that counts for both.
-- locks: the row, SKIP LOCKED
-- index: primary key
UPDATE jobs_zonerules SET seen_at = carillon_now()
WHERE id = ANY(ARRAY(SELECT id FROM jobs_zonerules WHERE version = %(version)s FOR UPDATE SKIP LOCKED));

-- name: settle
-- Note that all next instants are of this release.
-- locks: the row, waits as long as the beat's lock_timeout
-- index: primary key
INSERT INTO jobs_zonerules (id, version, seen_at) VALUES (1, %(version)s, carillon_now())
ON CONFLICT (id) DO UPDATE SET version = EXCLUDED.version, seen_at = EXCLUDED.seen_at;

-- name: page
-- Jobs after a given one, or (ids) exactly these. For jobs whose instants a time zone decides (zoned), also the columns
-- that decide them. These are locked until the transaction ends, except those locked by others, whose next_fire_at is
-- null here.
-- locks: job rows, SKIP LOCKED
-- index: primary key, trigger_one_per_firing
-- returns: id, zoned, the columns of the schedule, next_fire_at, updated_at, the latest firing that has a trigger (or
-- null), now
WITH page AS MATERIALIZED (
    SELECT id, schedule_type = 'cron' AND timezone <> 'UTC' AND status IN ('active', 'paused')
               AND next_fire_at IS NOT NULL AS zoned
    FROM jobs_job
    WHERE id > %(after)s::uuid AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s::uuid[]))
    ORDER BY id LIMIT %(limit)s
), locked AS (
    SELECT * FROM jobs_job WHERE id = ANY(ARRAY(SELECT id FROM page WHERE zoned)) AND next_fire_at IS NOT NULL
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT page.id, page.zoned, j.schedule_type, j.cron_expression, j.timezone, j."interval", j.run_at, j.starts_at,
       j.ends_at, j.dst_policy, j.cron_dialect, j.created_at, j.updated_at, j.next_fire_at, carillon_now() AS now,
       CASE WHEN page.zoned THEN (
           SELECT t.scheduled_for FROM jobs_trigger t
           WHERE t.job_id = page.id AND t.origin = 'schedule' ORDER BY t.scheduled_for DESC LIMIT 1)
       END AS last_fired_for
FROM page LEFT JOIN locked j USING (id)
ORDER BY page.id;
