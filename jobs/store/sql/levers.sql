-- Operators' levers over all tenants: dispatch as a whole (jobs.models.Installation), and each job type's queue.
-- Dispatch reads the first when it locks tenants, the others when it locks queues (queues.sql: lock). Claim reads both,
-- except the cap.

-- name: know_installation
-- Make the one row, so that the statements below find it.
-- index: primary key
INSERT INTO jobs_installation (id, stopped_by, stop_reason) VALUES (1, '', '') ON CONFLICT DO NOTHING;

-- name: stop
-- Stop dispatch. If it is stopped already, the time of that stop stays; another reason replaces the old one.
-- locks: the installation's row, waits (request)
-- index: primary key
-- returns: id, if something changed
UPDATE jobs_installation SET
    stopped_at = coalesce(stopped_at, carillon_clock()), stopped_by = %(by)s::text, stop_reason = %(reason)s::text
WHERE id = 1 AND (stopped_at IS NULL OR stop_reason <> %(reason)s::text)
RETURNING id;

-- name: start
-- Let dispatch go on.
-- locks: the installation's row, waits (request)
-- index: primary key
-- returns: id, if it was stopped
UPDATE jobs_installation SET stopped_at = NULL, stopped_by = '', stop_reason = ''
WHERE id = 1 AND stopped_at IS NOT NULL
RETURNING id;

-- name: pause_type
-- Pause a job type for all tenants. A dispatcher that serves the type holds its row: once this is committed, no
-- dispatch of the type follows.
-- locks: the queue's row, waits (request)
-- index: primary key
-- returns: job_type, if something changed
UPDATE jobs_queue SET
    paused_at = coalesce(paused_at, carillon_clock()), paused_by = %(by)s::text, pause_reason = %(reason)s::text
WHERE job_type = %(job_type)s::text AND (paused_at IS NULL OR pause_reason <> %(reason)s::text)
RETURNING job_type;

-- name: resume_type
-- Let a paused job type go on.
-- locks: the queue's row, waits (request)
-- index: primary key
-- returns: job_type, if it was paused
UPDATE jobs_queue SET paused_at = NULL, paused_by = '', pause_reason = ''
WHERE job_type = %(job_type)s::text AND paused_at IS NOT NULL
RETURNING job_type;

-- name: cap_type
-- Limit how many triggers of a job type are in flight; null lifts the limit.
-- locks: the queue's row, waits (request)
-- index: primary key
-- returns: job_type, if something changed
UPDATE jobs_queue SET max_in_flight = %(max_in_flight)s::int
WHERE job_type = %(job_type)s::text AND max_in_flight IS DISTINCT FROM %(max_in_flight)s::int
RETURNING job_type;

-- name: types
-- Job types by name, those of %(job_types)s and those on which a lever is set, with the triggers in flight of each.
-- index: trigger_in_flight
-- returns: job_type, paused_at, paused_by, pause_reason, max_in_flight, queued, running
SELECT coalesce(q.job_type, named.job_type) AS job_type, q.paused_at, coalesce(q.paused_by, '') AS paused_by,
       coalesce(q.pause_reason, '') AS pause_reason, q.max_in_flight, coalesce(load.queued, 0) AS queued,
       coalesce(load.running, 0) AS running
FROM unnest(%(job_types)s::text[]) AS named(job_type)
FULL JOIN (SELECT * FROM jobs_queue
           WHERE job_type = ANY(%(job_types)s::text[])
              OR %(others)s AND (paused_at IS NOT NULL OR max_in_flight IS NOT NULL)) q ON q.job_type = named.job_type
LEFT JOIN (SELECT job_type, count(*) FILTER (WHERE state = 'queued') AS queued,
                  count(*) FILTER (WHERE state = 'running') AS running
           FROM jobs_trigger WHERE phase = 'in_flight' GROUP BY job_type) load
       ON load.job_type = coalesce(q.job_type, named.job_type)
ORDER BY 1;
