-- The audit trail (jobs.models.trail), written by database triggers on the tables that it covers (migrations 0006 and
-- 0007).

-- name: page
-- Changes of a tenant's objects after a place, in the order of the trail. As in events.sql, it returns only changes of
-- transactions before which no transaction is still open, so a reader that goes on from the last one misses nothing.
-- The order is by the number, not by the text that is returned.
-- index: change_of_tenant
-- returns: xid (as text), id, at, kind, object_id, name, action, actor_kind, actor, changes
SELECT xid::text AS xid, id, at, kind, object_id, name, action, actor_kind, actor, changes FROM jobs_change
WHERE tenant_id = %(tenant_id)s AND (xid, id) > (%(after_xid)s::text::xid8, %(after_id)s::bigint)
  AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY jobs_change.xid, jobs_change.id
LIMIT %(limit)s;

-- name: page_of_object
-- As page, for one object.
-- index: change_of_object
-- returns: xid (as text), id, at, kind, object_id, name, action, actor_kind, actor, changes
SELECT xid::text AS xid, id, at, kind, object_id, name, action, actor_kind, actor, changes FROM (
    SELECT * FROM jobs_change
    WHERE object_id = %(object_id)s AND (xid, id) > (%(after_xid)s::text::xid8, %(after_id)s::bigint)
      AND xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY xid, id OFFSET 0) of_object
WHERE tenant_id = %(tenant_id)s
ORDER BY of_object.xid, of_object.id
LIMIT %(limit)s;

-- name: note_jobs
-- Record changes of jobs that none of the watched columns shows. Without an actor, the actor is the database's user.
-- index: primary key
INSERT INTO jobs_change (at, tenant_id, kind, object_id, name, action, actor_kind, actor, changes)
SELECT carillon_clock(), tenant_id, 'job', id::text, left(name, 200), 'updated', left(a.actor ->> 'kind', 16),
       left(a.actor ->> 'name', 200), w.changes
FROM jobs_job JOIN unnest(%(ids)s::uuid[], %(changes)s::jsonb[]) AS w(id, changes) USING (id)
CROSS JOIN coalesce(%(actor)s::jsonb, carillon_actor()) AS a(actor)
WHERE id = ANY(%(ids)s::uuid[]);

-- name: note
-- Record an action that no column shows: a job was fired, triggers were cancelled or replayed. Without an actor, the
-- actor is the database's user.
INSERT INTO jobs_change (at, tenant_id, kind, object_id, name, action, actor_kind, actor, changes)
SELECT carillon_clock(), %(tenant_id)s::bigint, %(kind)s, %(object_id)s, left(%(name)s, 200), %(action)s,
       left(a.actor ->> 'kind', 16), left(a.actor ->> 'name', 200), %(changes)s::jsonb
FROM coalesce(%(actor)s::jsonb, carillon_actor()) AS a(actor);

-- name: purge
-- Drop changes past retention, the oldest first, a bounded number at a time. Drop their checkpoints too, except the
-- last of those whose changes are gone, which says what was there. The function belongs to the owner, because the
-- application may delete nothing.
-- returns: purged
SELECT carillon_purge_trail(%(retention)s::interval, %(limit)s) AS purged;
