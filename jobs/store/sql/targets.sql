-- Targets, the hosts that handlers call: operators' rules (jobs.core.levers.targets), and triggers that wait until
-- their target lets them go. Dispatch reads the rules when their version differs (dispatch.sql: news); claim reads the
-- pauses.

-- name: rules
-- The rules of operators.
-- returns: pattern, rate_per_second, max_in_flight, paused_at, paused_by, pause_reason; by pattern
SELECT name AS pattern, rate_per_second, max_in_flight, paused_at, paused_by, pause_reason
FROM jobs_targetrule ORDER BY name;

-- name: lock_rules
-- Lock the rules, so that they are changed one after another.
-- locks: the installation's row, waits (request)
-- index: primary key
SELECT id FROM jobs_installation WHERE id = 1 FOR NO KEY UPDATE;

-- name: put
-- Write a rule. If it pauses its targets already, the time of that pause stays; another reason replaces the old one.
-- locks: the rule's row, held by lock_rules
-- index: unique key
INSERT INTO jobs_targetrule AS r (name, regex, rate_per_second, max_in_flight, paused_at, paused_by, pause_reason)
VALUES (%(pattern)s, %(regex)s, %(rate_per_second)s, %(max_in_flight)s,
        CASE WHEN %(paused)s THEN carillon_clock() END, %(by)s, %(reason)s)
ON CONFLICT (name) DO UPDATE SET
    rate_per_second = excluded.rate_per_second, max_in_flight = excluded.max_in_flight,
    paused_at = CASE WHEN %(paused)s THEN coalesce(r.paused_at, excluded.paused_at) END,
    paused_by = excluded.paused_by, pause_reason = excluded.pause_reason;

-- name: remove
-- Take a rule away.
-- locks: the rule's row, held by lock_rules
-- index: unique key
DELETE FROM jobs_targetrule WHERE name = %(pattern)s;

-- name: note_change
-- Make dispatchers read the rules again, and show them the triggers that wait for targets that a changed rule matches.
-- locks: the installation's row, held by lock_rules
-- index: primary key
UPDATE jobs_installation SET
    targets_version = targets_version + 1,
    targets_changed = ARRAY(SELECT DISTINCT p FROM unnest(targets_changed || %(pattern)s::varchar) p)
WHERE id = 1;

-- name: changes
-- The patterns of rules that changed since waiting triggers were last looked at for changes.
-- index: primary key
-- returns: version, patterns, now
SELECT targets_version AS version, targets_changed AS patterns, carillon_clock() AS now FROM jobs_installation WHERE id = 1;

-- name: forget_changes
-- Waiting triggers were looked at for all changes up to %(version)s. If another change came meanwhile, they are looked
-- at once more.
-- locks: the installation's row, SKIP LOCKED
-- index: primary key
UPDATE jobs_installation SET targets_changed = '{}'
WHERE id = ANY(ARRAY(SELECT id FROM jobs_installation WHERE id = 1 FOR NO KEY UPDATE SKIP LOCKED))
  AND targets_version = %(version)s;

-- name: park_for
-- Take triggers out of sight until their targets let them go (waiting, show), but no longer than for %(waits)s.
-- locks: trigger rows, held by candidates
-- index: primary key
UPDATE jobs_trigger t SET
    held = true, parked = true, parked_until = carillon_clock() + p.wait, parked_for = p.target
FROM unnest(%(ids)s::uuid[], %(targets)s::text[], %(waits)s::interval[]) AS p(id, target, wait)
WHERE t.id = ANY(%(ids)s::uuid[]) AND t.id = p.id AND t.state IN ('pending', 'retrying');

-- name: waiting
-- The next %(limit)s pairs of a target and a tenant after the given one, where triggers of the tenant wait for the
-- target. A loose index scan: its cost is the number of pairs, however many triggers wait.
-- index: trigger_parked_lane, primary key of tenants_tenant
-- plan: kept
-- returns: target, tenant_id, guarded (whether the tenant has circuit breakers); in this order
WITH RECURSIVE step AS (
    (SELECT parked_for, tenant_id, 1 AS nth FROM jobs_trigger
     WHERE parked AND parked_for <> '' AND (parked_for, tenant_id) > (%(target)s::text, %(tenant_id)s::bigint)
     ORDER BY parked_for, tenant_id LIMIT 1)
    UNION ALL
    SELECT following.parked_for, following.tenant_id, step.nth + 1 FROM step, LATERAL (
        SELECT parked_for, tenant_id FROM jobs_trigger t
        WHERE t.parked AND t.parked_for <> '' AND (t.parked_for, t.tenant_id) > (step.parked_for, step.tenant_id)
        ORDER BY t.parked_for, t.tenant_id LIMIT 1) following
    WHERE step.nth < %(limit)s
)
SELECT parked_for AS target, tenant_id, tenant.circuit_breaker AS guarded
FROM step, LATERAL (SELECT circuit_breaker FROM tenants_tenant WHERE id = step.tenant_id OFFSET 0) tenant
ORDER BY nth;

-- name: show
-- Show dispatch again some of each tenant's triggers that wait for each target: as many as there is room for, the most
-- urgent first, and of these the longest due first.
-- locks: trigger rows, SKIP LOCKED
-- index: trigger_parked_lane, primary key
-- returns: id
UPDATE jobs_trigger SET held = false, parked = false, parked_until = NULL, parked_for = ''
WHERE id = ANY(ARRAY(
    SELECT t.id
    FROM unnest(%(targets)s::text[], %(tenant_ids)s::bigint[], %(rooms)s::int[]) AS w(target, tenant_id, room), LATERAL (
        SELECT id FROM jobs_trigger waiting
        WHERE waiting.parked AND waiting.parked_for = w.target AND waiting.parked_for <> ''
          AND waiting.tenant_id = w.tenant_id
        ORDER BY waiting.priority, waiting.due_at LIMIT w.room
        FOR NO KEY UPDATE SKIP LOCKED) t)) AND parked
RETURNING id;

-- name: lock_targets
-- Those of the targets that no other dispatcher serves just now. They stay locked until the end of the transaction, so
-- that the counts read next (in_flight) stay true.
-- returns: target
SELECT target FROM unnest(%(targets)s::text[]) target
WHERE pg_try_advisory_xact_lock(hashtextextended(target, 43));

-- name: in_flight
-- How many triggers are in flight to each target, over all tenants. A target that has none is left out.
-- index: trigger_queued_at, primary key of jobs_job
-- plan: kept
-- returns: target, in_flight
SELECT j.target, count(*) AS in_flight
FROM (SELECT job_id FROM jobs_trigger WHERE phase = 'in_flight' OFFSET 0) t, LATERAL (
    SELECT target FROM jobs_job WHERE id = t.job_id OFFSET 0) j
WHERE j.target = ANY(%(targets)s::text[])
GROUP BY j.target;

-- name: rated
-- The next %(limit)s triggers that wait for a time, after the given one, each with the target for which it may wait.
-- index: trigger_parked_until, primary key of jobs_job
-- returns: id, parked_until, announced_at, target; by parked_until
SELECT t.id, t.parked_until, t.announced_at, j.target
FROM (SELECT id, job_id, parked_until, announced_at FROM jobs_trigger
      WHERE parked_until IS NOT NULL AND (parked_until, id) > (%(after)s::timestamptz, %(after_id)s::uuid)
      ORDER BY parked_until, id LIMIT %(limit)s) t, LATERAL (
    SELECT target FROM jobs_job WHERE id = t.job_id OFFSET 0) j
ORDER BY t.parked_until, t.id;

-- name: hurry
-- Show dispatch again triggers that wait for a time.
-- locks: trigger rows, SKIP LOCKED
-- index: primary key
-- returns: id
UPDATE jobs_trigger SET held = false, parked = false, parked_until = NULL, parked_for = ''
WHERE id = ANY(ARRAY(
    SELECT id FROM jobs_trigger WHERE id = ANY(%(ids)s::uuid[]) FOR NO KEY UPDATE SKIP LOCKED))
  AND parked_until IS NOT NULL
RETURNING id;
