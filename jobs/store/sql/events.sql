-- The event feed (jobs.models.event). Database triggers on their tables note changes of jobs, of workflows and of their
-- runs (migrations 0005, 0014). The statements below note changes of triggers, in the transaction that makes the
-- change. The path of a trigger's success notes nothing.

-- name: note
-- Note the new states of triggers, in the caller's transaction, with the last attempt's error if there was one. For a
-- task of a workflow, also note which task it is.
-- index: primary key, jobs_attempt_trigger, jobs_workflowtask_job_id_*
-- plan: kept
INSERT INTO jobs_event (tenant_id, at, kind, job_id, trigger_id, data)
SELECT t.tenant_id, carillon_clock(), 'trigger.' || CASE t.state WHEN 'pending' THEN 'replayed' ELSE t.state END,
       t.job_id, t.id, jsonb_strip_nulls(jsonb_build_object(
           'job_name', job.name, 'job_type', split_part(t.job_type, '@', 1), 'scheduled_for', t.scheduled_for,
           'reason', nullif(t.reason, ''), 'attempts', t.attempt_count,
           'error_code', nullif(attempt.error_code, ''), 'error_message', nullif(attempt.error_message, ''),
           'http_status', attempt.http_status,
           'workflow_run_id', t.workflow_run_id, 'workflow_id', job.workflow_id, 'task', task.key))
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS w(id, nth), LATERAL (
    SELECT * FROM jobs_trigger WHERE id = w.id OFFSET 0) t, LATERAL (
    SELECT name, workflow_id FROM jobs_job WHERE id = t.job_id OFFSET 0) job
LEFT JOIN LATERAL (
    SELECT key FROM jobs_workflowtask WHERE job.workflow_id IS NOT NULL AND job_id = t.job_id LIMIT 1) task ON true
LEFT JOIN LATERAL (
    SELECT error_code, error_message, http_status FROM jobs_attempt a
    WHERE t.attempt_count > 0 AND t.state IN ('dead', 'retrying') AND a.trigger_id = t.id
      AND a.number = t.attempt_count
    ORDER BY a.number DESC LIMIT 1) attempt ON true
WHERE t.state NOT IN ('queued', 'running')
ORDER BY w.nth;

-- name: note_ranges
-- Note runs of firings that were recorded as skipped, one event for each run.
-- index: primary key
INSERT INTO jobs_event (tenant_id, at, kind, job_id, trigger_id, data)
SELECT r.tenant_id, carillon_clock(), 'trigger.skipped', r.job_id, NULL, jsonb_strip_nulls(jsonb_build_object(
           'job_name', job.name, 'job_type', split_part(job.job_type, '@', 1), 'reason', r.reason,
           'from', r.from_at, 'until', r.until_at, 'count', r.count, 'workflow_id', job.workflow_id))
FROM unnest(%(job_ids)s::uuid[], %(tenant_ids)s::bigint[], %(from_ats)s::timestamptz[], %(until_ats)s::timestamptz[],
            %(counts)s::bigint[], %(reasons)s::text[]) AS r(job_id, tenant_id, from_at, until_at, count, reason), LATERAL (
    SELECT name, job_type, workflow_id FROM jobs_job WHERE id = r.job_id OFFSET 0) job;

-- name: page
-- A tenant's events after a place, in the order of the feed, within one window. Returns only events of transactions
-- before which no transaction is still open. All later commits lie behind these, so a reader that goes on from the last
-- event misses nothing. A bare xid in ORDER BY is the text that is returned, in which '1027' comes before '955'.
-- index: event_of_tenant
-- returns: xid (as text), id, at, kind, job_id, trigger_id, data
SELECT xid::text AS xid, id, at, kind, job_id, trigger_id, data FROM jobs_event
WHERE tenant_id = %(tenant_id)s AND (xid, id) > (%(after_xid)s::text::xid8, %(after_id)s::bigint)
  AND xid < %(before_xid)s::text::xid8 AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
ORDER BY jobs_event.xid, jobs_event.id
LIMIT %(limit)s;

-- name: first
-- The age of the first event of all tenants after a place, within one window, whether its transaction is over or not.
-- Without sorting, only the primary key can be used: a planner that expects one row would read all following rows, and
-- sort.
-- settings: enable_sort = off
-- index: primary key
-- returns: seconds, or no row
SELECT extract(epoch FROM carillon_clock() - at)::float AS seconds FROM jobs_event
WHERE (xid, id) > (%(after_xid)s::text::xid8, %(after_id)s::bigint)
  AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
ORDER BY jobs_event.xid, jobs_event.id
LIMIT 1;

-- name: horizon
-- The place before which no event can appear any more.
-- returns: xid (as text)
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS xid;

-- name: mark
-- Record between which transactions this moment lies. The moment is read before this transaction has its id, so that
-- the transactions after it began later. If a transaction makes several marks, the first stays.
-- index: primary key
INSERT INTO jobs_feedmark (at, over_xid)
SELECT carillon_now(), pg_snapshot_xmin(pg_current_snapshot())
ON CONFLICT (xid) DO NOTHING;

-- name: forget_marks
-- Drop the marks of times whose events are past retention, and the marks of future times, which were made while the
-- clock was ahead.
-- locks: rows of marks, SKIP LOCKED
-- index: feed_mark_at
DELETE FROM jobs_feedmark WHERE xid = ANY(ARRAY(
    SELECT xid FROM jobs_feedmark
    WHERE at < carillon_now() - %(retention)s OR at > carillon_now()
    FOR UPDATE SKIP LOCKED));

-- name: window
-- The range in which the events after a place lie, as far as one statement should read: a span of partitions, and the
-- transactions that had ended by the end of it. The bounds of time leave room for a clock that was put right.
-- index: primary key, feed_mark_at
-- returns: since, until, before_xid (as text), and whether later windows follow
WITH after AS MATERIALIZED (
    -- Without a mark there is no bound: least() of null and a time would be that time.
    SELECT (SELECT least(at, carillon_now()) FROM jobs_feedmark WHERE xid < %(after_xid)s::text::xid8
            ORDER BY jobs_feedmark.xid DESC LIMIT 1) AS at
), following AS MATERIALIZED (
    SELECT at, over_xid FROM jobs_feedmark
    WHERE at > coalesce((SELECT at FROM after), (SELECT at FROM jobs_feedmark ORDER BY at LIMIT 1)) + %(span)s
      AND over_xid > %(after_xid)s::text::xid8
    ORDER BY jobs_feedmark.at LIMIT 1
)
SELECT coalesce(after.at - %(room)s, '-infinity')::text AS since,
       coalesce(following.at + %(room)s, 'infinity')::text AS until,
       coalesce(following.over_xid, pg_snapshot_xmin(pg_current_snapshot()))::text AS before_xid,
       following.at IS NOT NULL AS goes_on
FROM after LEFT JOIN following ON true;
