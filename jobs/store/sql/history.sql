-- name: partitions
-- The attempts' partitions with their upper bound, oldest first.
-- returns: name, upper_bound (null for the default partition)
SELECT c.relname::text AS name,
       (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz AS upper_bound
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'jobs_attempt'::regclass
ORDER BY upper_bound NULLS LAST;

-- name: purge_triggers
-- Drop ended triggers past retention, a bounded number at a time.
-- index: primary key (UUIDv7 ids follow time)
-- returns: id
DELETE FROM jobs_trigger WHERE id = ANY(ARRAY(
    SELECT id FROM jobs_trigger
    WHERE id < %(before_id)s::uuid AND state IN ('succeeded', 'dead', 'skipped', 'cancelled')
      AND finished_at < carillon_now() - %(retention)s
    ORDER BY id LIMIT %(limit)s))
RETURNING id;

-- name: purge_results
-- Drop Celery results past retention, a bounded number at a time.
-- index: django_celery_results' index on date_done
-- returns: id
DELETE FROM django_celery_results_taskresult WHERE id = ANY(ARRAY(
    SELECT id FROM django_celery_results_taskresult
    WHERE date_done < carillon_now() - %(retention)s
    ORDER BY date_done LIMIT %(limit)s))
RETURNING id;

-- name: store_result
-- Keep what a Celery task returned, once: a stale duplicate of the message never overwrites it.
INSERT INTO django_celery_results_taskresult
    (task_id, task_name, worker, status, content_type, content_encoding, result, traceback, meta, task_args, task_kwargs,
     periodic_task_name, date_created, date_done)
VALUES (%(task_id)s, %(task_name)s, %(worker)s, %(status)s, 'application/json', 'utf-8', %(result)s, %(traceback)s,
        '{"children": []}', %(task_args)s, NULL, NULL, carillon_clock(), carillon_clock())
ON CONFLICT (task_id) DO NOTHING;
