-- name: begin
-- Record past firings that must still be decided, run, or (with a reason) skipped, with the policy as it is now.
INSERT INTO jobs_catchup (id, job_id, tenant_id, job_version, origin, policy, reason, window_start, max_catchup, from_at,
    until_at, cursor, tail, fired, skipped, expected, trace, created_at)
SELECT b.id, b.job_id, b.tenant_id, b.job_version, b.origin, b.policy, b.reason,
       greatest(carillon_clock() - b."window", '2000-01-01Z'), b.max_catchup, b.from_at, b.until_at,
       b.from_at - interval '1 microsecond', '{}', 0, 0, b.expected, b.trace, carillon_clock()
FROM unnest(%(ids)s::uuid[], %(job_ids)s::uuid[], %(tenant_ids)s::bigint[], %(job_versions)s::int[],
            %(origins)s::text[], %(policies)s::text[], %(reasons)s::text[], %(windows)s::interval[],
            %(max_catchups)s::int[], %(from_ats)s::timestamptz[], %(until_ats)s::timestamptz[], %(expecteds)s::bigint[],
            %(traces)s::text[])
     AS b(id, job_id, tenant_id, job_version, origin, policy, reason, "window", max_catchup, from_at, until_at, expected,
          trace);

-- name: absorb
-- Take back missed firings of the jobs whose triggers still wait and were never dispatched. They are decided with the
-- rest of their outage, so that no policy counts the two apart. Leave firings that another schedule or status of the
-- job named, and those before a range: the stretch would name instants that do not exist or are already on record. A
-- locked trigger is left as it is.
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_unfinished_by_job, primary key of jobs_job, skippedrange_of_job
-- returns: job_id, scheduled_for, tenant_id, job_type
WITH waits AS MATERIALIZED (
    SELECT t.id FROM jobs_trigger t, unnest(%(job_ids)s::uuid[], %(grace_ends)s::timestamptz[]) AS w(job_id, grace_end)
    WHERE t.job_id = ANY(%(job_ids)s::uuid[]) AND t.job_id = w.job_id AND t.phase = 'pending' AND t.origin = 'schedule'
      AND t.fence = 0 AND t.replay_count = 0 AND NOT t.held AND t.scheduled_for <= w.grace_end
      AND t.scheduled_for > (SELECT updated_at FROM jobs_job WHERE id = t.job_id)
      AND (SELECT id FROM jobs_skippedrange WHERE job_id = t.job_id AND until_at >= t.scheduled_for LIMIT 1) IS NULL
    FOR UPDATE OF t SKIP LOCKED
)
DELETE FROM jobs_trigger t
WHERE t.id = ANY(ARRAY(SELECT id FROM waits)) AND t.phase = 'pending' AND t.fence = 0 AND NOT t.held
RETURNING t.job_id, t.scheduled_for, t.tenant_id, t.job_type;

-- name: take_undecided
-- Catch-up whose firings must still be decided by their policy, or be skipped for a reason, in order of id after
-- %(after)s. It is locked until the transaction ends. The catch-up of a paused job waits, unless there is a reason.
-- Returns none once the term is over.
-- locks: catch-up rows, SKIP LOCKED
-- index: catchup_undecided, primary key of jobs_job, jobversion_of_job
-- plan: kept
-- returns: the catch-up; the columns of its job that records of firings need, and the job's schedule; past_schedule:
-- the schedule it began under, if the job has another version now
SELECT c.id, c.job_id, c.tenant_id, c.job_version, c.policy, c.reason, c.from_at, c.until_at, c.cursor, c.tail,
       coalesce(c.window_start, c.created_at - j.catchup_window) AS window_start,
       coalesce(c.max_catchup, j.max_catchup) AS max_catchup, j.job_type, j.priority, j.schedule_type, j.cron_expression,
       j.timezone, j."interval", j.run_at, j.starts_at, j.ends_at, j.dst_policy, j.cron_dialect, j.created_at,
       past.schedule AS past_schedule
FROM jobs_catchup c, LATERAL (SELECT * FROM jobs_job WHERE id = c.job_id OFFSET 0) j LEFT JOIN LATERAL (
    SELECT v.schedule FROM jobs_jobversion v
    WHERE c.job_version <> j.version AND v.job_id = c.job_id AND v.version = c.job_version
    ORDER BY v.valid_from DESC, v.id DESC LIMIT 1) past ON true
WHERE c.finished_at IS NULL AND (c.reason <> '' OR NOT (c.policy = 'fire_all' OR c.cursor >= c.until_at))
  AND c.id > %(after)s::uuid AND (c.reason <> '' OR j.status IN ('active', 'completed'))
  AND (%(term)s::bigint IS NULL OR EXISTS (
       SELECT 1 FROM jobs_lease WHERE name = 'leader' AND term = %(term)s AND expires_at > carillon_clock()))
ORDER BY c.id
LIMIT %(limit)s
FOR UPDATE OF c SKIP LOCKED;

-- name: waiting
-- Tenants with past firings that must run, and for each the number of such triggers that dispatch has not taken yet.
-- Jumps from tenant to tenant, however much each has to catch up with.
-- index: catchup_to_run, trigger_catchup_waiting
-- plan: kept
-- returns: tenant_id, waiting
WITH RECURSIVE tenant AS (
    (SELECT tenant_id FROM jobs_catchup
     WHERE finished_at IS NULL AND reason = '' AND (policy = 'fire_all' OR cursor >= until_at)
     ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT following.tenant_id FROM tenant, LATERAL (
        SELECT c.tenant_id FROM jobs_catchup c
        WHERE c.finished_at IS NULL AND c.reason = '' AND (c.policy = 'fire_all' OR c.cursor >= c.until_at)
          AND c.tenant_id > tenant.tenant_id
        ORDER BY c.tenant_id LIMIT 1) following
)
SELECT tenant_id,
       (SELECT count(*) FROM jobs_trigger t
        WHERE t.tenant_id = tenant.tenant_id AND t.origin IN ('catchup', 'backfill') AND t.phase = 'pending'
          AND NOT t.held) AS waiting
FROM tenant
ORDER BY tenant_id;

-- name: take_decided
-- One tenant's catch-up with firings that must run, in order of id after %(after)s, locked until the transaction ends.
-- If the firings of a job may not overlap, the next one comes only when no other firing of the job is due or under way,
-- so that none has to wait parked. For other jobs, a few firings may wait. Returns none once the term is over.
-- locks: catch-up rows, SKIP LOCKED
-- index: catchup_to_run, primary key of jobs_job, trigger_unfinished_by_job, jobversion_of_job
-- returns: the catch-up, room (how many may be made now), the columns of its job that a trigger needs, and its schedule
-- as in take_undecided
SELECT c.id, c.job_id, c.tenant_id, c.origin, c.policy, c.until_at, c.cursor, c.tail, c.trace, j.version AS job_version,
       j.job_type, j.schedule_type, j.cron_expression, j.timezone, j."interval", j.run_at, j.starts_at, j.ends_at, j.dst_policy,
       j.cron_dialect, j.created_at, past.schedule AS past_schedule, carillon_now() AS taken_at, room.n AS room
FROM jobs_catchup c, LATERAL (SELECT * FROM jobs_job WHERE id = c.job_id OFFSET 0) j, LATERAL (
    SELECT CASE WHEN j.overlap_policy = 'allow' AND c.origin <> 'backfill' AND c.policy <> 'backfill'
        THEN %(backlog)s - (SELECT count(*) FROM (
            SELECT 1 FROM jobs_trigger t
            WHERE t.job_id = c.job_id AND t.phase = 'pending' AND t.origin IN ('catchup', 'backfill')
            LIMIT %(backlog)s) w)
        ELSE 1 - (SELECT count(*) FROM (
            SELECT 1 FROM jobs_trigger t
            WHERE t.job_id = c.job_id AND (t.phase = 'in_flight' OR t.phase = 'pending'
                AND (t.due_at <= carillon_now() OR t.origin IN ('catchup', 'backfill')))
            LIMIT 1) w)
        END AS n OFFSET 0) room LEFT JOIN LATERAL (
    SELECT v.schedule FROM jobs_jobversion v
    WHERE c.job_version <> j.version AND v.job_id = c.job_id AND v.version = c.job_version
    ORDER BY v.valid_from DESC, v.id DESC LIMIT 1) past ON true
WHERE c.finished_at IS NULL AND c.reason = '' AND (c.policy = 'fire_all' OR c.cursor >= c.until_at)
  AND c.tenant_id = %(tenant_id)s AND c.id > %(after)s::uuid AND j.status IN ('active', 'completed') AND room.n > 0
  AND (%(term)s::bigint IS NULL OR EXISTS (
       SELECT 1 FROM jobs_lease WHERE name = 'leader' AND term = %(term)s AND expires_at > carillon_clock()))
ORDER BY c.id
LIMIT %(limit)s
FOR UPDATE OF c SKIP LOCKED;

-- name: recorded
-- The firings that already have a trigger, for each of some jobs in a stretch of time.
-- index: trigger_one_per_firing
-- returns: nth (which stretch, from 1), scheduled_for; ascending for each
SELECT w.nth, t.scheduled_for
FROM unnest(%(job_ids)s::uuid[], %(from_ats)s::timestamptz[], %(until_ats)s::timestamptz[])
         WITH ORDINALITY AS w(job_id, from_at, until_at, nth),
    LATERAL (SELECT scheduled_for FROM jobs_trigger
             WHERE job_id = w.job_id AND scheduled_for >= w.from_at AND scheduled_for <= w.until_at
             ORDER BY scheduled_for LIMIT %(limit)s) t;

-- name: skip
-- Record firings that do not run, one trigger for each. A firing that already has its trigger is left alone.
-- transition: - -> skipped
-- returns: ids of the new triggers
INSERT INTO jobs_trigger (
    id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason, held, priority,
    idempotency_key, fence, attempt_count, budget_start, crash_count, replay_count, worker, cancel_requested, created_at,
    finished_at)
SELECT f.id, f.job_id, f.tenant_id, f.job_type, f.job_version, 'schedule', f.scheduled_for, f.scheduled_for, 'skipped',
       f.reason, false, f.priority, f.idempotency_key, 0, 0, 0, 0, 0, '', false, carillon_clock(), carillon_clock()
FROM unnest(%(ids)s::uuid[], %(job_ids)s::uuid[], %(tenant_ids)s::bigint[], %(job_types)s::text[],
            %(job_versions)s::int[], %(scheduled_fors)s::timestamptz[], %(reasons)s::text[], %(priorities)s::smallint[],
            %(idempotency_keys)s::text[])
     AS f(id, job_id, tenant_id, job_type, job_version, scheduled_for, reason, priority, idempotency_key)
ON CONFLICT (job_id, scheduled_for) DO NOTHING
RETURNING id;

-- name: skip_range
-- Record runs of firings that do not run as ranges. If a run continues where the job's last range of the same version
-- and reason ended, no earlier than %(floors)s, it lengthens that range. A trigger between the two keeps them apart.
-- locks: rows of ranges, SKIP LOCKED
-- index: skippedrange_of_job, trigger_one_per_firing
WITH run AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(job_ids)s::uuid[], %(tenant_ids)s::bigint[], %(job_versions)s::int[],
                         %(from_ats)s::timestamptz[], %(until_ats)s::timestamptz[], %(counts)s::bigint[],
                         %(reasons)s::text[], %(floors)s::timestamptz[])
        AS r(id, job_id, tenant_id, job_version, from_at, until_at, count, reason, floor)
), adjoining AS MATERIALIZED (
    SELECT run.*, last.id AS range_id
    FROM run, LATERAL (
        SELECT id, job_version, reason, until_at FROM jobs_skippedrange s
        WHERE s.job_id = run.job_id AND s.until_at < run.from_at AND s.until_at >= run.floor
        ORDER BY s.until_at DESC LIMIT 1) last
    WHERE last.job_version = run.job_version AND last.reason = run.reason
      AND NOT EXISTS (
          SELECT 1 FROM jobs_trigger t
          WHERE t.job_id = run.job_id AND t.scheduled_for > last.until_at AND t.scheduled_for < run.from_at)
), free AS MATERIALIZED (
    SELECT id FROM jobs_skippedrange WHERE id = ANY(ARRAY(SELECT range_id FROM adjoining))
    FOR NO KEY UPDATE SKIP LOCKED
), lengthened AS (
    UPDATE jobs_skippedrange s SET until_at = a.until_at, count = s.count + a.count
    FROM adjoining a
    WHERE s.id = ANY(ARRAY(SELECT id FROM free)) AND s.id = a.range_id
)
INSERT INTO jobs_skippedrange (id, job_id, tenant_id, job_version, from_at, until_at, count, reason, created_at)
SELECT id, job_id, tenant_id, job_version, from_at, until_at, count, reason, carillon_clock()
FROM run WHERE id NOT IN (SELECT id FROM adjoining WHERE range_id IN (SELECT id FROM free));

-- name: advance
-- Write how far each catch-up has come, in the transaction that recorded the firings before. Catch-ups that are done
-- are finished.
-- locks: catch-up rows, held by take_undecided or take_decided
-- index: primary key
UPDATE jobs_catchup c SET
    cursor = n.cursor, tail = n.tail::timestamptz[], fired = c.fired + n.fired, skipped = c.skipped + n.skipped,
    finished_at = CASE WHEN n.done THEN carillon_clock() END
FROM unnest(%(ids)s::uuid[], %(cursors)s::timestamptz[], %(tails)s::text[], %(fireds)s::bigint[], %(skippeds)s::bigint[],
            %(dones)s::boolean[]) AS n(id, cursor, tail, fired, skipped, done)
WHERE c.id = ANY(%(ids)s::uuid[]) AND c.id = n.id AND c.finished_at IS NULL;

-- name: end_jobs
-- Stop the catch-up of jobs that were cancelled or deleted. The leader records the rest of an outage, however large it
-- is; a backfill leaves nothing to record. Waits for a step that holds a row.
-- locks: catch-up rows, waits (request)
-- index: catchup_of_job, primary key
UPDATE jobs_catchup SET
    reason = CASE WHEN origin = 'backfill' THEN reason ELSE 'misfire' END,
    finished_at = CASE WHEN origin = 'backfill' THEN carillon_clock() END
WHERE id = ANY(ARRAY(
        SELECT c.id FROM unnest(%(job_ids)s::uuid[]) AS w(job_id), LATERAL (
            SELECT id FROM jobs_catchup WHERE job_id = w.job_id AND finished_at IS NULL AND reason = '' OFFSET 0) c))
  AND finished_at IS NULL AND reason = '';

-- name: end_backfill
-- Stop one backfill of a job. The triggers it has made go on; it makes no more. Waits for a step that holds its row.
-- locks: the catch-up's row, waits (request)
-- index: primary key
-- returns: id
UPDATE jobs_catchup SET finished_at = carillon_clock()
WHERE id = %(id)s AND job_id = %(job_id)s AND origin = 'backfill' AND finished_at IS NULL
RETURNING id;

-- name: give_up
-- End catch-up whose schedule can no longer be computed, so that its firings are unknown.
-- locks: catch-up rows, SKIP LOCKED
-- index: primary key
UPDATE jobs_catchup SET finished_at = carillon_clock()
WHERE finished_at IS NULL AND id = ANY(ARRAY(
    SELECT id FROM jobs_catchup WHERE id = ANY(%(ids)s::uuid[]) FOR NO KEY UPDATE SKIP LOCKED));
