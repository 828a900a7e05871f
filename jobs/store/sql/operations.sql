-- name: begin
-- Record an operation, unless the tenant has as many unfinished operations as it may have. Call it under the tenant's
-- lock.
-- index: operation_unfinished
-- returns: id
INSERT INTO jobs_operation (
    id, tenant_id, verb, filter, changes, reason, expected, all_or_nothing, checking, checked, per_second, next_at, cursor, done, refused,
    refusals, cancelled, asked_by, trace, created_at, updated_at)
SELECT %(id)s, %(tenant_id)s, %(verb)s, %(filter)s::jsonb, %(changes)s::jsonb, %(reason)s, %(expected)s, %(all_or_nothing)s,
       %(all_or_nothing)s, 0,
       %(per_second)s, CASE WHEN %(per_second)s::float IS NOT NULL THEN carillon_clock() END,
       '00000000-0000-0000-0000-000000000000', 0, 0, '[]', false, %(asked_by)s::jsonb, %(trace)s, carillon_clock(),
       carillon_clock()
WHERE (SELECT count(*) FROM jobs_operation WHERE finished_at IS NULL AND tenant_id = %(tenant_id)s) < %(most)s
RETURNING id;

-- name: take
-- The unfinished operation that has waited longest, of the tenant that has waited longest. It is locked until the
-- transaction ends. However many operations a tenant has begun, its turn comes once in a round of all tenants. Another
-- beat takes another operation. An operation that keeps a pace waits until its next item may be done. It is told how
-- many items may be done (room) and since when those fell due (paced_from): as many as fell due since the last slice,
-- but no more than a second's, so that it does not make up for a stop. A next item that is further away than the pace
-- can have put it was set before the clock went back.
-- locks: a row of jobs_operation, SKIP LOCKED
-- index: operation_unfinished
-- returns: id, tenant_id, verb, filter, changes, reason, checking, cursor, asked_by, trace, created_at, room,
-- paced_from
SELECT o.id, o.tenant_id, o.verb, o.filter, o.changes, o.reason, o.checking, o.cursor, o.asked_by, o.trace, o.created_at,
       1 + floor(extract(epoch FROM clock.now - pace.paced_from) * o.per_second)::int AS room, pace.paced_from
FROM (SELECT carillon_clock() AS now OFFSET 0) clock
    CROSS JOIN jobs_operation o
    CROSS JOIN LATERAL (SELECT CASE WHEN o.per_second IS NOT NULL THEN
        greatest(least(o.next_at, clock.now), clock.now - interval '1 second') END AS paced_from) pace
    JOIN (SELECT tenant_id, max(updated_at) AS served_at FROM jobs_operation
          WHERE finished_at IS NULL GROUP BY tenant_id) tenant USING (tenant_id)
WHERE o.finished_at IS NULL AND o.paused_at IS NULL
  AND (o.per_second IS NULL OR o.next_at <= clock.now OR o.next_at > clock.now + interval '1 second' * 2 / o.per_second)
ORDER BY tenant.served_at, o.updated_at LIMIT 1
FOR NO KEY UPDATE OF o SKIP LOCKED;

-- name: wait
-- How soon an operation that keeps a pace may go on; no row if no operation keeps one.
-- index: operation_unfinished
-- returns: seconds
SELECT extract(epoch FROM min(next_at) - carillon_clock())::float AS seconds FROM jobs_operation
WHERE finished_at IS NULL AND paused_at IS NULL AND per_second IS NOT NULL
HAVING count(*) > 0;

-- name: note
-- Note the results of a slice, in the transaction that did it. At the end of the walk the operation is finished.
-- locks: the operation's row, held by take
-- index: primary key
UPDATE jobs_operation SET
    cursor = %(cursor)s, done = done + %(done)s, refused = refused + %(refused)s,
    refusals = CASE WHEN jsonb_array_length(refusals) < %(most)s THEN refusals || %(refusals)s::jsonb ELSE refusals END,
    next_at = CASE WHEN per_second IS NOT NULL
                   THEN %(paced_from)s::timestamptz + interval '1 second' * (%(items)s / per_second) END,
    updated_at = carillon_clock(), finished_at = CASE WHEN %(ends)s THEN carillon_clock() END
WHERE id = %(id)s;

-- name: note_checked
-- Note the findings of a slice that only checks. At the end of the walk the operation begins again, to do the work; or
-- it ends, if something was refused.
-- locks: the operation's row, held by take
-- index: primary key
UPDATE jobs_operation SET
    cursor = CASE WHEN %(ends)s THEN '00000000-0000-0000-0000-000000000000' ELSE %(cursor)s::uuid END,
    checked = checked + %(items)s, refused = refused + %(refused)s,
    refusals = CASE WHEN jsonb_array_length(refusals) < %(most)s THEN refusals || %(refusals)s::jsonb ELSE refusals END,
    checking = NOT %(ends)s OR refused + %(refused)s > 0,
    updated_at = carillon_clock(),
    finished_at = CASE WHEN %(ends)s AND refused + %(refused)s > 0 THEN carillon_clock() END
WHERE id = %(id)s;

-- name: postpone
-- Let the other operations go first: this one could not go on.
-- locks: the operation's row, held by take
-- index: primary key
UPDATE jobs_operation SET updated_at = carillon_clock() WHERE id = %(id)s;

-- name: pause
-- Do nothing more for now. Waits for the present slice.
-- locks: the operation's row, waits (request)
-- index: primary key
-- returns: id
UPDATE jobs_operation SET paused_at = carillon_clock()
WHERE id = %(id)s AND tenant_id = %(tenant_id)s AND finished_at IS NULL AND paused_at IS NULL
RETURNING id;

-- name: resume
-- Go on where it was paused.
-- locks: the operation's row, waits (request)
-- index: primary key
-- returns: id
UPDATE jobs_operation SET paused_at = NULL
WHERE id = %(id)s AND tenant_id = %(tenant_id)s AND finished_at IS NULL AND paused_at IS NOT NULL
RETURNING id;

-- name: cancel
-- Do nothing more; finished slices stay done. Waits for the present slice.
-- locks: the operation's row, waits (request)
-- index: primary key
-- returns: id
UPDATE jobs_operation SET cancelled = true, updated_at = carillon_clock(), finished_at = carillon_clock()
WHERE id = %(id)s AND tenant_id = %(tenant_id)s AND finished_at IS NULL
RETURNING id;

-- name: note_reason
-- Write the reason of paused jobs, in the transaction that pauses them.
-- locks: job rows, held by the action
-- index: primary key
UPDATE jobs_job SET status_reason = %(reason)s WHERE id = ANY(%(ids)s::uuid[]) AND status = 'paused';

-- name: purge
-- Drop finished operations past retention, a bounded number at a time.
-- locks: rows of jobs_operation, SKIP LOCKED
-- index: primary key (UUIDv7 ids follow time)
-- returns: id
DELETE FROM jobs_operation WHERE id = ANY(ARRAY(
    SELECT id FROM jobs_operation
    WHERE id < %(before_id)s::uuid AND finished_at < carillon_now() - %(retention)s
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING id;
