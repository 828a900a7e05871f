-- name: take_key
-- Hold a tenant's key alone until the transaction ends. No call waits for the key: a call that does not get it is told
-- so.
-- locks: an advisory lock on the key
-- returns: free
SELECT pg_try_advisory_xact_lock(%(lock)s::bigint) AS free;

-- name: find
-- The answer that is kept for a key. Call it after take_key, in a statement of its own, so that it sees the commit of
-- the previous holder.
-- index: primary key
-- returns: fingerprint, status, headers, body
SELECT fingerprint, status, headers, body FROM jobs_answer
WHERE tenant_id = %(tenant_id)s AND key = %(key)s AND created_at > carillon_now() - %(kept_for)s;

-- name: kept_bytes
-- The bytes kept of a tenant's answers, read from the count that the table's triggers keep.
-- index: primary key of jobs_answertally
-- returns: bytes
SELECT coalesce(sum(bytes), 0)::bigint AS bytes FROM jobs_answertally WHERE tenant_id = %(tenant_id)s;

-- name: keep
-- Keep an answer, in the transaction that did the work it reports. It replaces an answer that is past its time.
-- locks: rows of jobs_answer, waits (request)
-- index: primary key
INSERT INTO jobs_answer (tenant_id, key, fingerprint, status, headers, body, created_at)
VALUES (%(tenant_id)s, %(key)s, %(fingerprint)s, %(status)s, %(headers)s::jsonb, %(body)s, carillon_clock())
ON CONFLICT (tenant_id, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, status = excluded.status, headers = excluded.headers, body = excluded.body,
    created_at = excluded.created_at;

-- name: purge
-- Drop answers past their time, a bounded number at a time. Locked rows do not move, so that they are found again by
-- their place.
-- locks: rows of jobs_answer, SKIP LOCKED
-- index: answer_created
-- returns: key
DELETE FROM jobs_answer WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM jobs_answer
    WHERE created_at <= carillon_now() - %(kept_for)s
    ORDER BY created_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED))
RETURNING key;
