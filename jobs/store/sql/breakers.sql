-- Circuit breakers: how a tenant's recent calls of a target went (jobs.models.Breaker, jobs.core.levers.breaker).
-- Workers count, dispatch hands out the probe, and claim looks at the breakers; each does so only for tenants that want
-- them.

-- name: find
-- The breakers of pairs of a tenant and a target, if they exist.
-- index: unique key, primary key
-- plan: kept
-- returns: id, tenant_id, target, state, failures, successes, window_ends_at, openings, probe_at, probe_id,
-- changed_at, now, probe_in_flight
SELECT b.id, b.tenant_id, b.target, b.state, b.failures, b.successes, b.window_ends_at, b.openings, b.probe_at, b.probe_id,
       b.changed_at, carillon_now() AS now,
       -- As a value: from an EXISTS the planner makes a list of all triggers in flight.
       coalesce((SELECT p.phase = 'in_flight' FROM jobs_trigger p WHERE p.id = b.probe_id), false) AS probe_in_flight
FROM unnest(%(tenant_ids)s::bigint[], %(targets)s::text[]) AS w(tenant_id, target), LATERAL (
    SELECT * FROM jobs_breaker WHERE tenant_id = w.tenant_id AND target = w.target OFFSET 0) b;

-- name: patience
-- How long this transaction waits for a lock.
-- returns: present
SELECT current_setting('lock_timeout') AS present;

-- name: bound
-- Wait no longer for a lock in this transaction.
SELECT set_config('lock_timeout', %(patience)s::text, true);

-- name: open
-- Insert rows for pairs that have none, in the order of the pairs. A tenant that has %(most)s gets no more.
-- locks: none, or waits by lock_timeout for another that makes the same row
-- index: unique key
INSERT INTO jobs_breaker (tenant_id, target, state, failures, successes, window_ends_at, openings, changed_at)
SELECT w.tenant_id, w.target, 'closed', 0, 0, carillon_clock(), 0, carillon_clock()
FROM unnest(%(tenant_ids)s::bigint[], %(targets)s::text[]) AS w(tenant_id, target)
WHERE (SELECT count(*) FROM (
           SELECT FROM jobs_breaker b WHERE b.tenant_id = w.tenant_id LIMIT %(most)s) own) < %(most)s
ORDER BY w.tenant_id, w.target
ON CONFLICT DO NOTHING;

-- name: lock
-- The breakers of pairs, locked one after another in the order of the pairs, so that the counts of two workers add up.
-- locks: breaker rows, by lock_timeout
-- index: unique key
-- returns: as find, without probe_in_flight
SELECT b.id, b.tenant_id, b.target, b.state, b.failures, b.successes, b.window_ends_at, b.openings, b.probe_at, b.probe_id,
       carillon_now() AS now
FROM jobs_breaker b
WHERE (b.tenant_id, b.target) IN (
    SELECT * FROM unnest(%(tenant_ids)s::bigint[], %(targets)s::text[]))
ORDER BY b.tenant_id, b.target
FOR NO KEY UPDATE;

-- name: write
-- Write the new state of the rows.
-- locks: breaker rows, held by lock
-- index: primary key
UPDATE jobs_breaker b SET
    state = w.state, failures = w.failures, successes = w.successes, window_ends_at = coalesce(w.window_ends_at, carillon_clock()),
    openings = w.openings, probe_at = w.probe_at, probe_id = NULL,
    changed_at = CASE WHEN b.state = w.state THEN b.changed_at ELSE carillon_clock() END
FROM unnest(%(ids)s::bigint[], %(states)s::text[], %(failures)s::int[], %(successes)s::int[],
            %(window_ends_ats)s::timestamptz[], %(openings)s::int[], %(probe_ats)s::timestamptz[])
         AS w(id, state, failures, successes, window_ends_at, openings, probe_at)
WHERE b.id = ANY(%(ids)s::bigint[]) AND b.id = w.id;

-- name: probe
-- Hand out the probes: each row that is unchanged since it was read is given its trigger.
-- locks: breaker rows, SKIP LOCKED
-- index: primary key
-- returns: id, probe_id
UPDATE jobs_breaker b SET
    state = 'half_open', probe_id = w.trigger_id, probe_at = w.until,
    changed_at = CASE WHEN b.state = 'half_open' THEN b.changed_at ELSE carillon_clock() END
FROM unnest(%(ids)s::bigint[], %(states)s::text[], %(probe_ids)s::uuid[], %(trigger_ids)s::uuid[],
            %(untils)s::timestamptz[]) AS w(id, state, probe_id, trigger_id, until)
WHERE b.id = ANY(ARRAY(
    SELECT id FROM jobs_breaker WHERE id = ANY(%(ids)s::bigint[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED))
  AND b.id = w.id AND b.state = w.state AND b.probe_id IS NOT DISTINCT FROM w.probe_id
RETURNING b.id, b.probe_id;

-- name: purge
-- Delete breakers that tell nothing any more: counts of a window that is over, and breakers that no trigger has wanted
-- to probe for %(idle)s.
-- locks: breaker rows, SKIP LOCKED
-- index: breaker_closed, breaker_not_closed, trigger_parked_lane
-- returns: id
DELETE FROM jobs_breaker WHERE id = ANY(ARRAY(
    (SELECT id FROM jobs_breaker b
     WHERE b.state = 'closed' AND b.window_ends_at < carillon_now()
     ORDER BY b.window_ends_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED))
    || ARRAY(
    (SELECT id FROM jobs_breaker b
     WHERE b.state <> 'closed' AND b.probe_at < carillon_now() - %(idle)s::interval
       AND NOT EXISTS (SELECT FROM jobs_trigger t WHERE t.parked AND t.parked_for = b.target AND t.parked_for <> ''
                       AND t.tenant_id = b.tenant_id)
     ORDER BY b.probe_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED)))
RETURNING id;
