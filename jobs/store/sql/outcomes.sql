-- How the firings of one job went. Every read is bounded, however many there are.

-- name: latest
-- The latest firing of a job that started, and how many firings in a row died since one succeeded, in the order in
-- which they ran. A scan of a CTE reads only as far as it is asked to, and in the CTE's order. So the walk over the
-- attempts ends at the latest one that succeeded, usually after one row. An ORDER BY would make it read to the end.
-- index: jobs_attempt_job, primary key
-- returns: fired_at, state (of that trigger), error_code (of the latest attempt that has ended; null: that succeeded),
--          failures; no row if nothing has started, as far back as history goes
WITH recent AS MATERIALIZED (
    SELECT trigger_id, state, error_code, started_at, row_number() OVER (ORDER BY id DESC) AS nth
    FROM (SELECT id, trigger_id, state, error_code, started_at FROM jobs_attempt
          WHERE job_id = %(job_id)s AND job_id > '00000000-0000-0000-0000-000000000000'
          ORDER BY id DESC LIMIT %(attempts)s) walk
), failed AS (
    SELECT DISTINCT trigger_id FROM (
        SELECT trigger_id FROM recent
        LIMIT (SELECT nth - 1 FROM recent WHERE state = 'succeeded' LIMIT 1)) since_success
)
SELECT last.started_at AS fired_at, t.state,
       (SELECT nullif(error_code, '') FROM recent WHERE state NOT IN ('started', 'stale') LIMIT 1) AS error_code,
       (SELECT count(*) FROM (
            SELECT FROM failed, LATERAL (SELECT state FROM jobs_trigger WHERE id = failed.trigger_id OFFSET 0) each
            WHERE each.state = 'dead' LIMIT %(most)s) died) AS failures
FROM (SELECT trigger_id, started_at FROM recent LIMIT 1) last,
     LATERAL (SELECT state FROM jobs_trigger WHERE id = last.trigger_id OFFSET 0) t;

-- name: statistics
-- How the firings of a job went, bucket by bucket: counts by state, and histograms of how late they started and how
-- long they took. Each bucket is read in slices, at most %(limit)s firings of each slice. For a job with more firings,
-- this is a sample that is spread over the bucket. Bin n of a histogram ends at smallest * ratio ^ n seconds.
-- index: trigger_one_per_firing
-- returns: bucket, count, and one of: state; lag (a bin); duration (a bin); slice (one of which no more was read)
WITH firing AS (
    SELECT s.nth AS slice, s.nth / %(slices_a_bucket)s AS bucket, t.*
    FROM generate_series(0, %(slices)s - 1) AS s(nth), LATERAL (
        SELECT state,
               -- For a trigger that was tried twice, due_at is the end of its back-off. Its time includes the back-off.
               CASE WHEN attempt_count = 1 AND started_at >= due_at
                    THEN greatest(extract(epoch FROM started_at - due_at)::float, %(smallest)s) END AS lag,
               CASE WHEN attempt_count = 1 AND finished_at >= started_at
                    THEN greatest(extract(epoch FROM finished_at - started_at)::float, %(smallest)s) END AS duration
        FROM jobs_trigger
        WHERE job_id = %(job_id)s AND scheduled_for >= %(since)s::timestamptz + s.nth * %(slice)s::interval
          AND scheduled_for < least(%(since)s::timestamptz + (s.nth + 1) * %(slice)s::interval, %(until)s::timestamptz)
        ORDER BY scheduled_for LIMIT %(limit)s) t
), binned AS (
    SELECT slice, bucket, state, ceil(ln(lag / %(smallest)s) / ln(%(ratio)s))::int AS lag,
           ceil(ln(duration / %(smallest)s) / ln(%(ratio)s))::int AS duration
    FROM firing OFFSET 0
)
SELECT bucket, state, lag, duration, slice, count(*) AS count FROM binned
GROUP BY GROUPING SETS ((bucket, state), (bucket, lag), (bucket, duration), (bucket, slice))
HAVING CASE WHEN grouping(slice) = 0 THEN count(*) >= %(limit)s
            ELSE state IS NOT NULL OR lag IS NOT NULL OR duration IS NOT NULL END;
