-- Which worker processes are there. A small table, written by each every few seconds; read for people, and by beats that
-- choose whether a message is worth sending.

-- name: announce
-- Say that a worker is there and what it takes from; forget the others that have been silent for a day.
-- locks: the worker's own row, waits (worker); those of workers gone for a day, SKIP LOCKED
-- index: primary key
-- returns: the other process that announced this name last, lately; or null
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
-- A worker takes nothing more: it is told to stop. Another process of the same name stays.
-- locks: the worker's own row, waits (worker)
-- index: primary key
DELETE FROM jobs_worker WHERE name = %(name)s AND process = %(process)s;

-- name: present
-- The workers heard of lately, by name.
-- returns: name, process, queues, concurrency, busy, seen_at, and for how long it has been silent
SELECT name, process, queues, concurrency, busy, seen_at,
       greatest(0, extract(epoch FROM carillon_now() - seen_at))::float AS silent_seconds
FROM jobs_worker
WHERE seen_at > carillon_now() - %(silence)s::interval
ORDER BY name
LIMIT %(limit)s;

-- name: queues_taken
-- Which of these queues the workers heard of lately take from; pull workers' with their tenant's mark.
-- returns: queue
SELECT DISTINCT queue FROM jobs_worker, unnest(queues) AS queue
WHERE seen_at > carillon_now() - %(silence)s::interval AND split_part(queue, '@', 1) = ANY(%(queues)s::text[]);
