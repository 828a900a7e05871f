-- Checkpoints of the audit trail (jobs.store.trail.chain): each holds the hash of all changes of a range of
-- transactions, and the seal of the previous checkpoint. Ranges are closed: no transaction in them is still open, so
-- that writers of the trail wait for nothing.

-- name: begin
-- Insert the row of the chain's head, if there is none yet.
-- index: primary key
INSERT INTO jobs_trailhead (id, number, upto_xid, last_seal, key_id, seal)
VALUES (1, 0, '0', '', %(key_id)s, %(seal)s)
ON CONFLICT DO NOTHING;

-- name: head
-- The head, as it stands.
-- returns: number, upto_xid (as text), last_seal, key_id, seal, now; no row: nothing was ever signed
SELECT number, upto_xid::text AS upto_xid, last_seal, key_id, seal, carillon_now() AS now FROM jobs_trailhead WHERE id = 1;

-- name: next_range
-- The head, locked, and the transaction up to which the next checkpoint goes (null: there is nothing new). A checkpoint
-- takes whole transactions: with the change at the limit, it takes all changes of that change's transaction.
-- locks: the head's row, SKIP LOCKED: another beat is signing
-- index: change_in_order
-- returns: number, after_xid, last_seal, key_id, seal, upto_xid; no row: another beat is signing
WITH head AS MATERIALIZED (
    SELECT * FROM jobs_trailhead WHERE id = 1 FOR UPDATE SKIP LOCKED
)
SELECT head.number, head.upto_xid::text AS after_xid, head.last_seal, head.key_id, head.seal,
       coalesce(full_range.xid, rest.xid)::text AS upto_xid
FROM head
LEFT JOIN LATERAL (
    SELECT c.xid FROM jobs_change c
    WHERE c.xid > head.upto_xid AND c.xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY c.xid, c.id OFFSET %(limit)s - 1 LIMIT 1) full_range ON true
LEFT JOIN LATERAL (
    SELECT c.xid FROM jobs_change c
    WHERE c.xid > head.upto_xid AND c.xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY c.xid DESC, c.id DESC LIMIT 1) rest ON true;

-- name: digest
-- The content of a range. Signing and verifying share this one statement.
-- index: change_in_order
-- returns: changes, last_at (null for none), digest, now
SELECT count(*) AS changes, max(at) AS last_at, carillon_now() AS now,
       encode(sha256(coalesce(string_agg(sha256(convert_to(jsonb_build_array(
           xid::text, id, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), tenant_id, kind, object_id, name,
           action, actor_kind, actor, changes)::text, 'UTF8')), ''::bytea ORDER BY xid, id), ''::bytea)), 'hex') AS digest
FROM jobs_change WHERE xid > %(after_xid)s::text::xid8 AND xid <= %(upto_xid)s::text::xid8;

-- name: sign
-- Append a checkpoint, and move the head to it.
-- locks: the head's row, held by next_range
-- index: primary key
WITH signed AS (
    INSERT INTO jobs_trailcheckpoint
        (number, after_xid, upto_xid, changes, digest, last_at, made_at, previous, key_id, seal)
    VALUES (%(number)s, %(after_xid)s::text::xid8, %(upto_xid)s::text::xid8, %(changes)s, %(digest)s, %(last_at)s,
            %(made_at)s, %(previous)s, %(key_id)s, %(seal)s)
    RETURNING number, upto_xid, seal
)
UPDATE jobs_trailhead head
SET number = signed.number, upto_xid = signed.upto_xid, last_seal = signed.seal, key_id = %(key_id)s, seal = %(head_seal)s
FROM signed WHERE head.id = 1;

-- name: begin_anew
-- Begin again after a restore, which gives all changes a new transaction. The next checkpoint covers all changes, and
-- continues from the last one's seal. The checkpoints before say nothing about these transactions.
-- locks: the head's row and checkpoints, waits (request)
-- index: primary key
WITH void AS (DELETE FROM jobs_trailcheckpoint)
UPDATE jobs_trailhead SET upto_xid = '0', key_id = %(key_id)s, seal = %(seal)s WHERE id = 1 AND number = %(number)s;

-- name: checkpoints
-- Checkpoints after a given one, in order.
-- index: primary key
-- returns: number, after_xid (as text), upto_xid (as text), changes, digest, last_at, made_at, previous, key_id, seal
SELECT number, after_xid::text AS after_xid, upto_xid::text AS upto_xid, changes, digest, last_at, made_at, previous,
       key_id, seal
FROM jobs_trailcheckpoint WHERE number > %(after)s ORDER BY number LIMIT %(limit)s;

-- name: beside
-- Count the changes outside of all checkpoints: those of transactions before the first checkpoint that are not past
-- retention, and those after the last checkpoint that should have been signed by now.
-- index: change_in_order
-- returns: before, unsigned, unsigned_since (null for none)
SELECT (SELECT count(*) FROM jobs_change
        WHERE xid <= %(first_xid)s::text::xid8 AND at >= carillon_now() - %(retention)s::interval) AS before,
       count(*) AS unsigned, min(at) AS unsigned_since
FROM jobs_change
WHERE xid > %(last_xid)s::text::xid8 AND xid < pg_snapshot_xmin(pg_current_snapshot())
  AND at < carillon_now() - %(grace)s::interval;
