-- Messages that cannot go to the broker while it is away (jobs.models.Message). They are as reliable as a broker's, and
-- no more: the worker that takes one claims its triggers by (id, fence).

-- name: put
-- Leave messages for the workers of their job types.
INSERT INTO jobs_message (job_type, items, created_at)
SELECT job_type, items, carillon_clock()
FROM unnest(%(job_types)s::text[], %(items)s::jsonb[]) WITH ORDINALITY AS m(job_type, items, nth)
ORDER BY nth;

-- name: take
-- The oldest message of these job types that no other worker is taking. It is gone with this statement, like a broker's
-- message that was acknowledged on receipt: a worker that dies before the claim leaves its triggers to reap.
-- locks: the message's row, SKIP LOCKED
-- index: primary key
-- returns: job_type, items
DELETE FROM jobs_message
WHERE id = (
    SELECT id FROM jobs_message WHERE job_type = ANY(%(job_types)s::text[])
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING job_type, items;

-- name: forget
-- Drop messages that no worker took for so long that their triggers were queued again under other fences.
-- locks: rows, SKIP LOCKED
-- index: primary key
-- returns: id
DELETE FROM jobs_message
WHERE id = ANY(ARRAY(
    SELECT id FROM jobs_message WHERE created_at < carillon_now() - %(age)s::interval
    ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING id;
