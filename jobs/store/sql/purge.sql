-- name: triggers
-- Drop ended triggers past retention, a bounded number at a time. A replay may move one of them at the same time: the
-- row is checked again under its lock, so one that is pending again stays, and one that is being replayed is skipped.
-- locks: trigger rows, SKIP LOCKED
-- index: primary key (UUIDv7 ids follow time)
-- returns: id
DELETE FROM jobs_trigger
WHERE id = ANY(ARRAY(
    SELECT id FROM jobs_trigger
    WHERE id < %(before_id)s::uuid AND state IN ('succeeded', 'dead', 'skipped', 'cancelled')
      AND finished_at < carillon_now() - %(retention)s
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
  AND state IN ('succeeded', 'dead', 'skipped', 'cancelled') AND finished_at < carillon_now() - %(retention)s
RETURNING id;

-- name: results
-- Drop Celery results past retention, a bounded number at a time.
-- locks: rows of results, SKIP LOCKED
-- index: django_celery_results' index on date_done
-- returns: id
DELETE FROM django_celery_results_taskresult WHERE id = ANY(ARRAY(
    SELECT id FROM django_celery_results_taskresult
    WHERE date_done < carillon_now() - %(retention)s
    ORDER BY date_done LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING id;

-- name: sessions
-- Drop browsers' sessions that are over, a bounded number at a time. A sign-in that was begun and not ended leaves one.
-- locks: rows of sessions, SKIP LOCKED
-- index: Django's index on expire_date
-- returns: session_key
DELETE FROM django_session WHERE session_key = ANY(ARRAY(
    SELECT session_key FROM django_session WHERE expire_date < carillon_now()
    ORDER BY expire_date LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING session_key;

-- name: catchups
-- Drop catch-up that was finished before the retention began, a bounded number at a time.
-- locks: catch-up rows, SKIP LOCKED
-- index: primary key (UUIDv7 ids follow time)
-- returns: id
DELETE FROM jobs_catchup WHERE id = ANY(ARRAY(
    SELECT id FROM jobs_catchup
    WHERE id < %(before_id)s::uuid AND finished_at < carillon_now() - %(retention)s
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING id;

-- name: ranges
-- Drop ranges of skipped firings that end before the retention began, a bounded number at a time. A range is recorded
-- after its firings, so that the ids of ranges past retention are past retention, too.
-- locks: rows of ranges, SKIP LOCKED
-- index: primary key (UUIDv7 ids follow time)
-- returns: id
DELETE FROM jobs_skippedrange WHERE id = ANY(ARRAY(
    SELECT id FROM jobs_skippedrange
    WHERE id < %(before_id)s::uuid AND until_at < carillon_now() - %(retention)s
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING id;

-- name: effects
-- Drop records of effects whose triggers are gone, a bounded number at a time.
-- locks: rows of effects, SKIP LOCKED
-- index: primary keys (UUIDv7 ids follow time)
-- returns: trigger_id
DELETE FROM jobs_effect e
USING (SELECT trigger_id, key FROM jobs_effect r
       WHERE r.trigger_id < %(before_id)s::uuid
         AND (SELECT t.id FROM jobs_trigger t WHERE t.id = r.trigger_id LIMIT 1) IS NULL
       ORDER BY r.trigger_id, r.key LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED) gone
WHERE e.trigger_id = gone.trigger_id AND e.key = gone.key
RETURNING e.trigger_id;

-- name: versions
-- Drop entries of timelines that another entry followed before the retention began, and that no unfinished catch-up
-- needs. The entry in force when the retention began stays. Walks the timelines on from one entry, because most entries
-- are in force and stay.
-- locks: rows of timelines, SKIP LOCKED
-- index: jobversion_of_job, catchup_of_job, primary key
-- returns: the last entry looked at (job_id, valid_from, id), how many were looked at and how many were dropped
WITH page AS MATERIALIZED (
    SELECT id, job_id, version, valid_from FROM jobs_jobversion
    WHERE (job_id, valid_from, id) > (%(after_job_id)s::uuid, %(after_valid_from)s::timestamptz, %(after_id)s::uuid)
    ORDER BY job_id, valid_from, id LIMIT %(limit)s
), dropped AS (
    DELETE FROM jobs_jobversion WHERE id = ANY(ARRAY(
        SELECT past.id FROM page p JOIN jobs_jobversion past ON past.id = p.id
        WHERE p.valid_from < carillon_now() - %(retention)s
          AND (SELECT v.id FROM jobs_jobversion v
               WHERE v.job_id = p.job_id AND (v.valid_from, v.id) > (p.valid_from, p.id)
                 AND v.valid_from <= carillon_now() - %(retention)s
               ORDER BY v.valid_from, v.id LIMIT 1) IS NOT NULL
          AND (SELECT c.id FROM jobs_catchup c
               WHERE c.job_id = p.job_id AND c.job_version = p.version AND c.finished_at IS NULL LIMIT 1) IS NULL
        FOR UPDATE OF past SKIP LOCKED))
    RETURNING id
)
SELECT job_id, valid_from, id, (SELECT count(*) FROM page) AS looked_at, (SELECT count(*) FROM dropped) AS dropped
FROM page ORDER BY job_id DESC, valid_from DESC, id DESC LIMIT 1;
