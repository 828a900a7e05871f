-- name: begin
-- Put an operation on record, unless as many of the tenant's as may be are unfinished. Call under the tenant's lock.
-- index: operation_unfinished
-- returns: id
INSERT INTO jobs_operation (
    id, tenant_id, verb, filter, cursor, done, refused, refusals, cancelled, asked_by, created_at,
    updated_at)
SELECT %(id)s, %(tenant_id)s, %(verb)s, %(filter)s::jsonb, '00000000-0000-0000-0000-000000000000', 0, 0, '[]', false,
       %(asked_by)s::jsonb, carillon_clock(), carillon_clock()
WHERE (SELECT count(*) FROM jobs_operation WHERE finished_at IS NULL AND tenant_id = %(tenant_id)s) < %(most)s
RETURNING id;

-- name: take
-- The unfinished operation that has waited longest of the tenant that has, locked until the transaction ends: however many
-- a tenant has begun, its turn comes once in a round of all tenants. Another beat takes another.
-- locks: a row of jobs_operation, SKIP LOCKED
-- index: operation_unfinished
-- returns: id, tenant_id, verb, filter, cursor, asked_by, created_at
SELECT o.id, o.tenant_id, o.verb, o.filter, o.cursor, o.asked_by, o.created_at
FROM jobs_operation o
    JOIN (SELECT tenant_id, max(updated_at) AS served_at FROM jobs_operation
          WHERE finished_at IS NULL GROUP BY tenant_id) tenant USING (tenant_id)
WHERE o.finished_at IS NULL
ORDER BY tenant.served_at, o.updated_at LIMIT 1
FOR NO KEY UPDATE OF o SKIP LOCKED;

-- name: note
-- What a slice has done, in the transaction that did it; at the end of the walk the operation is finished.
-- locks: the operation's row, held by take
-- index: primary key
UPDATE jobs_operation SET
    cursor = %(cursor)s, done = done + %(done)s, refused = refused + %(refused)s,
    refusals = CASE WHEN jsonb_array_length(refusals) < %(most)s THEN refusals || %(refusals)s::jsonb ELSE refusals END,
    updated_at = carillon_clock(), finished_at = CASE WHEN %(ends)s THEN carillon_clock() END
WHERE id = %(id)s;

-- name: postpone
-- Let the others go first: this one could not go on.
-- locks: the operation's row, held by take
-- index: primary key
UPDATE jobs_operation SET updated_at = carillon_clock() WHERE id = %(id)s;

-- name: cancel
-- Do nothing more; finished slices stay done. Waits for the present slice.
-- locks: the operation's row, waits (request)
-- index: primary key
-- returns: id
UPDATE jobs_operation SET cancelled = true, updated_at = carillon_clock(), finished_at = carillon_clock()
WHERE id = %(id)s AND tenant_id = %(tenant_id)s AND finished_at IS NULL
RETURNING id;

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
