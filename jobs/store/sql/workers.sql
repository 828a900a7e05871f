-- The worker processes that are there. A small table: each process writes it every few seconds. It is read for people,
-- and by beats that choose whether a message is worth sending.

-- name: announce
-- Say that a worker is there and which queues it takes from. Forget the other workers that have been silent for a day.
-- locks: the worker's own row, waits (worker); those of workers gone for a day, SKIP LOCKED
-- index: primary key
-- returns: the other process that last announced this name, if recently; or null
WITH gone AS (
    DELETE FROM jobs_worker WHERE name = ANY(ARRAY(
        SELECT name FROM jobs_worker WHERE seen_at < carillon_clock() - interval '1 day' AND name <> %(name)s
        FOR UPDATE SKIP LOCKED))
), other AS (
    SELECT process FROM jobs_worker
    WHERE name = %(name)s AND process <> %(process)s AND seen_at > carillon_clock() - %(silence)s::interval
)
INSERT INTO jobs_worker AS w (name, queues, concurrency, busy, process, seen_at)
VALUES (%(name)s, %(queues)s::text[], %(concurrency)s, %(busy)s, %(process)s, carillon_clock())
ON CONFLICT (name) DO UPDATE SET
    queues = excluded.queues, concurrency = excluded.concurrency, busy = excluded.busy, process = excluded.process,
    seen_at = excluded.seen_at
RETURNING (SELECT process FROM other) AS other;

-- name: leave
-- Remove a worker that takes nothing more: it was told to stop. Another process of the same name stays.
-- locks: the worker's own row, waits (worker)
-- index: primary key
DELETE FROM jobs_worker WHERE name = %(name)s AND process = %(process)s;

-- name: present
-- The workers that were heard of recently, by name.
-- returns: name, process, queues, concurrency, busy, seen_at, and for how long it has been silent
SELECT name, process, queues, concurrency, busy, seen_at,
       greatest(0, extract(epoch FROM carillon_now() - seen_at))::float AS silent_seconds
FROM jobs_worker
WHERE seen_at > carillon_now() - %(silence)s::interval
ORDER BY name
LIMIT %(limit)s;

-- name: queues_taken
-- Those of these queues that the workers heard of recently take from; queues of pull workers have their tenant's mark.
-- returns: queue
SELECT DISTINCT queue FROM jobs_worker, unnest(queues) AS queue
WHERE seen_at > carillon_now() - %(silence)s::interval AND split_part(queue, '@', 1) = ANY(%(queues)s::text[]);
