-- Waiting and running triggers by job type, and how many slots served them, as the leader saw them every half a minute.
-- There is one row for each type and step of time, so there are few rows, however many triggers there are. Kept for
-- charts; nothing depends on them.

-- name: keep
-- Keep the figures of the present step of each length: the maximum of all looks of a step; of the slots, the last look.
-- locks: rows of the present steps, in the order of their keys, lock_timeout
-- index: primary key
INSERT INTO jobs_queuesample AS kept (step_seconds, job_type, at, due, parked, queued, running, slots, lag_seconds)
SELECT step, seen.job_type, to_timestamp(floor(extract(epoch FROM (SELECT carillon_now())) / step) * step),
       seen.due, seen.parked, seen.queued, seen.running, seen.slots, seen.lag_seconds
FROM unnest(%(steps)s::int[]) AS step, jsonb_to_recordset(%(rows)s::jsonb) AS seen(
    job_type text, due int, parked int, queued int, running int, slots int, lag_seconds float)
ORDER BY step, seen.job_type
ON CONFLICT (step_seconds, job_type, at) DO UPDATE SET
    due = greatest(kept.due, excluded.due), parked = greatest(kept.parked, excluded.parked),
    queued = greatest(kept.queued, excluded.queued), running = greatest(kept.running, excluded.running),
    slots = excluded.slots, lag_seconds = greatest(kept.lag_seconds, excluded.lag_seconds);

-- name: series
-- The figures of a job type ('': of all) in a stretch of time, by bucket: the maximum of each.
-- index: primary key
-- returns: bucket (from since on), due, parked, queued, running, slots, lag_seconds
SELECT floor(extract(epoch FROM at - %(since)s::timestamptz) / %(bucket_seconds)s)::int AS bucket,
       max(due) AS due, max(parked) AS parked, max(queued) AS queued, max(running) AS running, max(slots) AS slots,
       max(lag_seconds) AS lag_seconds
FROM jobs_queuesample
WHERE step_seconds = %(step)s AND job_type = %(job_type)s AND at >= %(since)s::timestamptz AND at <= %(until)s::timestamptz
GROUP BY bucket ORDER BY bucket;

-- name: purge
-- Drop samples past their time: steps of each length are kept for as long as charts of them are drawn.
-- locks: rows past their time, SKIP LOCKED
-- index: primary key
WITH past AS MATERIALIZED (
    SELECT s.step_seconds, s.job_type, s.at FROM jobs_queuesample s
    JOIN unnest(%(steps)s::int[], %(kept)s::interval[]) AS k(step, kept) ON s.step_seconds = k.step
    WHERE s.at < carillon_now() - k.kept FOR UPDATE OF s SKIP LOCKED
)
DELETE FROM jobs_queuesample WHERE (step_seconds, job_type, at) IN (SELECT step_seconds, job_type, at FROM past);
