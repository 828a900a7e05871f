-- The event feed (jobs.models.event). Changes of jobs are noted by a trigger of jobs_job (migration 0005), those of
-- triggers by the statements below, in the transaction that makes the change; the path of a success notes nothing.

-- name: note
-- Note what has just become of triggers, in the caller's transaction, with the last attempt's error where there was one.
-- index: primary key, jobs_attempt_trigger
INSERT INTO jobs_event (tenant_id, at, kind, job_id, trigger_id, data)
SELECT t.tenant_id, carillon_clock(), 'trigger.' || CASE t.state WHEN 'pending' THEN 'replayed' ELSE t.state END,
       t.job_id, t.id, jsonb_strip_nulls(jsonb_build_object(
           'job_name', job.name, 'job_type', split_part(t.job_type, '@', 1), 'scheduled_for', t.scheduled_for,
           'reason', nullif(t.reason, ''), 'attempts', t.attempt_count,
           'error_code', nullif(attempt.error_code, ''), 'error_message', nullif(attempt.error_message, ''),
           'http_status', attempt.http_status))
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS w(id, nth), LATERAL (
    SELECT * FROM jobs_trigger WHERE id = w.id OFFSET 0) t, LATERAL (
    SELECT name FROM jobs_job WHERE id = t.job_id OFFSET 0) job
LEFT JOIN LATERAL (
    SELECT error_code, error_message, http_status FROM jobs_attempt a
    WHERE t.attempt_count > 0 AND t.state IN ('dead', 'retrying') AND a.trigger_id = t.id
      AND a.number = t.attempt_count
    ORDER BY a.number DESC LIMIT 1) attempt ON true
WHERE t.state NOT IN ('queued', 'running')
ORDER BY w.nth;

-- name: note_ranges
-- Note runs of firings that were put on record as skipped, an event each.
-- index: primary key
INSERT INTO jobs_event (tenant_id, at, kind, job_id, trigger_id, data)
SELECT r.tenant_id, carillon_clock(), 'trigger.skipped', r.job_id, NULL, jsonb_build_object(
           'job_name', job.name, 'job_type', split_part(job.job_type, '@', 1), 'reason', r.reason,
           'from', r.from_at, 'until', r.until_at, 'count', r.count)
FROM unnest(%(job_ids)s::uuid[], %(tenant_ids)s::bigint[], %(from_ats)s::timestamptz[], %(until_ats)s::timestamptz[],
            %(counts)s::bigint[], %(reasons)s::text[]) AS r(job_id, tenant_id, from_at, until_at, count, reason), LATERAL (
    SELECT name, job_type FROM jobs_job WHERE id = r.job_id OFFSET 0) job;

-- name: page
-- A tenant's events on from one place, in the order of the feed. Only of transactions before which none is still open:
-- whatever commits from here on lies behind them, so that a reader who goes on from the last one misses nothing.
-- A bare xid in ORDER BY is the text that is returned, in which '1027' comes before '955'.
-- index: event_of_tenant
-- returns: xid (as text), id, at, kind, job_id, trigger_id, data
SELECT xid::text AS xid, id, at, kind, job_id, trigger_id, data FROM jobs_event
WHERE tenant_id = %(tenant_id)s AND (xid, id) > (%(after_xid)s::text::xid8, %(after_id)s::bigint)
  AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY jobs_event.xid, jobs_event.id
LIMIT %(limit)s;

-- name: horizon
-- The place before which no event can appear any more.
-- returns: xid (as text)
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS xid;

-- name: purge
-- Drop events past retention, the oldest first, a bounded number at a time.
-- locks: event rows, SKIP LOCKED
-- index: event_in_order
-- returns: id
-- An event is never changed, so that its place in the table is as good as its key.
DELETE FROM jobs_event WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM jobs_event WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM (
        SELECT ctid, at FROM jobs_event WHERE xid < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY xid, id LIMIT %(limit)s) oldest
        WHERE at < carillon_now() - %(retention)s))
    FOR UPDATE SKIP LOCKED))
RETURNING id;
