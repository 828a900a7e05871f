-- The audit trail (jobs.models.feed.change), written by triggers of the tables it tells of (migration 0022).

-- name: page
-- Changes of a tenant's objects on from one place, in the order of the trail. As in events.sql, only of transactions
-- before which none is still open, so that a reader who goes on from the last one misses nothing.
-- index: change_of_tenant
-- returns: xid (as text), id, at, kind, object_id, name, action, actor_kind, actor, changes
SELECT xid::text AS xid, id, at, kind, object_id, name, action, actor_kind, actor, changes FROM jobs_change
WHERE tenant_id = %(tenant_id)s AND (xid, id) > (%(after_xid)s::text::xid8, %(after_id)s::bigint)
  AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY xid, id
LIMIT %(limit)s;

-- name: page_of_object
-- The same of one object.
-- index: change_of_object
-- returns: xid (as text), id, at, kind, object_id, name, action, actor_kind, actor, changes
SELECT xid::text AS xid, id, at, kind, object_id, name, action, actor_kind, actor, changes FROM (
    SELECT * FROM jobs_change
    WHERE object_id = %(object_id)s AND (xid, id) > (%(after_xid)s::text::xid8, %(after_id)s::bigint)
      AND xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY xid, id OFFSET 0) of_object
WHERE tenant_id = %(tenant_id)s
LIMIT %(limit)s;

-- name: purge
-- Drop changes past retention, the oldest first, a bounded number at a time.
-- index: change_at
-- returns: id
-- A change is never changed, so that its place in the table is as good as its key.
DELETE FROM jobs_change WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM (
        SELECT ctid, at FROM jobs_change WHERE at < carillon_now() ORDER BY at LIMIT %(limit)s) oldest
    WHERE at < carillon_now() - %(retention)s))
RETURNING id;
