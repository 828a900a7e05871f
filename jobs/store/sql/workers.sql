-- Which worker processes are there. A small table, written by each every few seconds; read for people, and by beats that
-- choose whether a message is worth sending.

-- name: announce
-- Say that a worker is there and what it takes from; forget the others that have been silent for a day.
-- index: primary key
WITH gone AS (
    DELETE FROM jobs_worker WHERE seen_at < carillon_clock() - interval '1 day' AND name <> %(name)s
)
INSERT INTO jobs_worker AS w (name, queues, concurrency, seen_at)
VALUES (%(name)s, %(queues)s::text[], %(concurrency)s, carillon_clock())
ON CONFLICT (name) DO UPDATE SET
    queues = excluded.queues, concurrency = excluded.concurrency, seen_at = excluded.seen_at;

-- name: leave
-- A worker takes nothing more: it is told to stop.
-- index: primary key
DELETE FROM jobs_worker WHERE name = %(name)s;

-- name: present
-- The workers heard of lately, by name.
-- returns: name, queues, concurrency, seen_at
SELECT name, queues, concurrency, seen_at FROM jobs_worker
WHERE seen_at > carillon_now() - %(silence)s::interval
ORDER BY name
LIMIT %(limit)s;

-- name: queues_taken
-- Which of these queues the workers heard of lately take from; pull workers' with their tenant's mark.
-- returns: queue
SELECT DISTINCT queue FROM jobs_worker, unnest(queues) AS queue
WHERE seen_at > carillon_now() - %(silence)s::interval AND split_part(queue, '@', 1) = ANY(%(queues)s::text[]);
