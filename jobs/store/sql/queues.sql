-- State of each job type's queue that dispatchers share (jobs.models.Queue). Only the dispatcher that holds a row
-- dispatches its type.

-- name: lock
-- Take the queues to dispatch into. A queue that another dispatcher holds is being served by it just now.
-- locks: queue rows, SKIP LOCKED, held to the end of the dispatch transaction
-- index: primary key
-- plan: kept
-- returns: job_type, window, whether it is time to measure, whether an operator paused the type, and an operator's cap
SELECT job_type, "window", measured_at < carillon_clock() - %(every)s::interval AS unmeasured,
       paused_at IS NOT NULL AS paused, max_in_flight
FROM jobs_queue
WHERE job_type = ANY(%(job_types)s::text[])
ORDER BY job_type
FOR NO KEY UPDATE SKIP LOCKED;

-- name: open
-- Insert queues before dispatch uses them. Known queues are left out first, because the insert would wait for a
-- conflict with a row that a dispatcher is just updating.
-- index: primary key
-- plan: kept
INSERT INTO jobs_queue (job_type, "window", rate, dispatched, drained, measured_at)
SELECT t, %(window)s, 0, 0, 0, carillon_clock() FROM unnest(%(job_types)s::text[]) AS t
WHERE NOT EXISTS (SELECT 1 FROM jobs_queue WHERE job_type = t)
ORDER BY t
ON CONFLICT DO NOTHING;

-- name: measure
-- Let the windows follow the workers' pace: about as many triggers may be queued as the workers claim within the target
-- wait. A window grows as soon as the workers claim more, and shrinks only when the queued triggers would take them
-- longer. After a pause the rate is unknown: only the mark is set again.
-- locks: queue rows, held by lock
-- index: primary key
-- plan: kept
-- returns: job_type, window
WITH sample AS MATERIALIZED (
    SELECT q.job_type, load.queued, carillon_clock() - q.measured_at <= %(stale)s::interval AS fresh,
           greatest(0, q.dispatched - load.queued - q.drained)
               / extract(epoch FROM carillon_clock() - q.measured_at)::float AS rate
    FROM jobs_queue q JOIN unnest(%(job_types)s::text[], %(queued)s::int[]) AS load(job_type, queued) USING (job_type)
    WHERE q.job_type = ANY(%(job_types)s::text[])
), demanded AS (
    SELECT *, least(%(maximum)s, greatest(%(minimum)s, ceil(rate * %(wait_seconds)s)))::int AS demand FROM sample
)
UPDATE jobs_queue q SET
    rate = CASE WHEN j.fresh THEN j.rate ELSE q.rate END,
    "window" = CASE WHEN j.fresh AND (j.demand > q."window" OR j.queued > j.demand) THEN j.demand
                    ELSE least(%(maximum)s, greatest(%(minimum)s, q."window")) END,
    drained = q.dispatched - j.queued, measured_at = carillon_clock()
FROM demanded j
WHERE q.job_type = j.job_type
RETURNING q.job_type, q."window";

-- name: note_dispatched
-- Count the queued triggers, under the caller's locks.
-- locks: queue rows, held by lock
-- index: primary key
-- plan: kept
UPDATE jobs_queue q SET dispatched = q.dispatched + n.count
FROM unnest(%(job_types)s::text[], %(counts)s::int[]) AS n(job_type, count)
WHERE q.job_type = n.job_type;
