-- Notices that the notifier makes from the event feed (jobs.engine.notices). One transaction reads on from its place,
-- makes triggers of system jobs, and keeps the new place. So each event is decided once, even if a process dies.

-- name: open
-- Begin at the feed's end, if there is no place yet.
-- index: primary key
INSERT INTO jobs_feedreader (name, xid, event_id)
SELECT 'notifier', pg_snapshot_xmin(pg_current_snapshot()), 0
WHERE NOT EXISTS (SELECT 1 FROM jobs_feedreader WHERE name = 'notifier')
ON CONFLICT DO NOTHING;

-- name: take
-- The place that the notifier has reached; no row while another beat holds it.
-- locks: the reader's row, SKIP LOCKED, held to the end of the transaction
-- index: primary key
-- returns: xid (as text), event_id
SELECT xid::text AS xid, event_id FROM jobs_feedreader WHERE name = 'notifier' FOR UPDATE SKIP LOCKED;

-- name: read
-- The events of all tenants after a place, as in events.sql: page, with the notify settings that apply to each. Returns
-- only the page's events of kinds that may be asked for, and its last event, which says how far the page goes: most
-- events need no notice. The planner does not sort, for the reason given at events.sql: first.
-- settings: enable_sort = off
-- index: primary keys
-- returns: the event, how many the page has, the notify of its job or of its run's or schedule's workflow (own_notify)
-- and of its tenant, and pause_after_failures
WITH page AS MATERIALIZED (
    SELECT jobs_event.xid AS at_xid, xid::text AS xid, id, tenant_id, at, kind, job_id, trigger_id, data,
           row_number() OVER (ORDER BY jobs_event.xid, id) AS nth
    FROM jobs_event
    WHERE (jobs_event.xid, id) > (%(after_xid)s::text::xid8, %(after_id)s::bigint)
      AND jobs_event.xid < %(before_xid)s::text::xid8
      AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
    ORDER BY jobs_event.xid, id LIMIT %(limit)s
), size AS MATERIALIZED (
    SELECT count(*) AS on_page FROM page
)
SELECT e.*, size.on_page, own.notify AS own_notify, tenant.notify AS tenant_notify, own.pause_after_failures
FROM size CROSS JOIN page e LEFT JOIN LATERAL (
    SELECT CASE job_type WHEN 'carillon.workflow' THEN (SELECT w.notify FROM jobs_workflow w WHERE w.id = workflow_id)
                         ELSE notify END AS notify, pause_after_failures
    FROM jobs_job WHERE id = e.job_id
    UNION ALL
    SELECT notify, NULL FROM jobs_workflow WHERE id = e.job_id AND e.kind LIKE 'workflow\_run.%%'
    OFFSET 0) own ON true LEFT JOIN LATERAL (
    SELECT notify FROM tenants_tenant WHERE id = e.tenant_id OFFSET 0) tenant ON true
WHERE e.kind = ANY(%(kinds)s::text[]) OR e.nth = size.on_page
ORDER BY e.at_xid, e.id;

-- name: keep
-- Store the place that was reached.
-- locks: the reader's row, held by take
-- index: primary key
UPDATE jobs_feedreader SET xid = %(xid)s::text::xid8, event_id = %(event_id)s WHERE name = 'notifier';

-- name: send
-- Insert a trigger of a system job for each notice, due now, at an instant that no other trigger of its job has.
-- transition: - -> pending
-- index: trigger_one_per_firing, primary key
-- returns: id, tenant_id, job_type
INSERT INTO jobs_trigger (
    id, job_id, tenant_id, job_type, job_version, origin, scheduled_for, due_at, state, reason, held, priority,
    idempotency_key, payload, fence, attempt_count, budget_start, crash_count, replay_count, worker, cancel_requested,
    created_at)
SELECT n.id, job.id, job.tenant_id, job.job_type, job.version, 'run_now', due.at, due.at, 'pending', '', false,
       job.priority, n.idempotency_key, n.payload, 0, 0, 0, 0, 0, '', false, carillon_clock()
FROM unnest(%(ids)s::uuid[], %(job_ids)s::uuid[], %(idempotency_keys)s::text[], %(payloads)s::jsonb[])
         WITH ORDINALITY AS n(id, job_id, idempotency_key, payload, nth), LATERAL (
    SELECT id, tenant_id, job_type, version, priority FROM jobs_job WHERE id = n.job_id OFFSET 0) job, LATERAL (
    SELECT greatest(carillon_now(), (
               SELECT scheduled_for FROM jobs_trigger WHERE job_id = job.id ORDER BY scheduled_for DESC LIMIT 1))
           + n.nth * interval '1 microsecond' AS at) due
RETURNING id, tenant_id, job_type;

-- name: dying
-- Those of these jobs that are dying: all of their last firings that ran died, as many as are asked for, since the job
-- was last edited or resumed. A thousand firings are looked at.
-- index: trigger_one_per_firing, primary key
-- returns: id
SELECT w.id
FROM unnest(%(ids)s::uuid[], %(counts)s::int[]) AS w(id, count), LATERAL (
    SELECT updated_at FROM jobs_job WHERE id = w.id AND status = 'active' OFFSET 0) job, LATERAL (
    SELECT count(*) AS ran, count(*) FILTER (WHERE state = 'dead') AS died FROM (
        SELECT state FROM (
            SELECT state, finished_at FROM jobs_trigger WHERE job_id = w.id
            ORDER BY scheduled_for DESC LIMIT 1000) recent
        WHERE state IN ('succeeded', 'dead') AND finished_at > job.updated_at
        LIMIT w.count) last) seen
WHERE seen.ran = w.count AND seen.died = w.count;

-- name: pause_dying
-- Pause jobs whose firings keep dying. Claim hands their queued triggers back.
-- locks: job rows, SKIP LOCKED: a locked job is looked at again at its next death
-- index: primary key
-- returns: id
UPDATE jobs_job SET
    status = 'paused', updated_at = carillon_clock(),
    status_reason = 'Paused after ' || pause_after_failures || CASE pause_after_failures
        WHEN 1 THEN ' firing that died.' ELSE ' firings in a row that died.' END
WHERE status = 'active' AND id = ANY(ARRAY(
    SELECT id FROM jobs_job WHERE id = ANY(%(ids)s::uuid[]) AND status = 'active' FOR NO KEY UPDATE SKIP LOCKED))
RETURNING id;
