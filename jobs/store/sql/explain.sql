-- Why a trigger waits: the figures by which dispatch decides, for one trigger at a time. jobs.explain explains their
-- meaning, and asks jobs.core.policies for its decisions (line). The counts for release are those of parking.sql. A
-- test holds the answers to dispatch.

-- name: trigger_facts
-- All facts that decide whether one trigger may start now, and its outcome if it has ended. At most %(most)s of the
-- job's other triggers that wait are read, and as many that are under way. For a trigger that has ended, nothing is
-- counted.
-- index: primary key, trigger_in_flight, trigger_unfinished_by_job, trigger_key_in_flight, trigger_lane,
-- jobs_attempt_trigger, workflowrun_running
-- returns: one row, or none when the tenant has no such trigger
WITH fact AS MATERIALIZED (
    SELECT t.*, t.state IN ('pending', 'queued', 'running', 'retrying') AS unfinished, j.status AS job_status,
           j.status_reason, j.paused_until, j.deleted_at, j.overlap_policy, j.misfire_policy, j.max_concurrent, j.max_catchup,
           j.concurrency_key AS key, j.target, j.retry_policy, j.delivery, j.timeout, j.misfire_grace,
           j.catchup_window, j.workflow_id, tenant.slug AS tenant, tenant.status AS tenant_status,
           tenant.max_in_flight AS tenant_max_in_flight, tenant.rate_per_second, tenant.rate_burst,
           tenant.disabled_types, tenant.circuit_breaker
    FROM (
        SELECT id, job_id, tenant_id, job_type, priority, scheduled_for, due_at, state, reason, held, parked, parked_until,
               parked_for, fence, attempt_count, budget_start, worker, lease_expires_at, cancel_requested, queued_at, started_at, finished_at,
               dismissed_at, dismissed_by, dismissed_note
        FROM jobs_trigger WHERE id = %(id)s AND tenant_id = %(tenant_id)s) t, LATERAL (
        SELECT status, status_reason, paused_until, deleted_at, overlap_policy, misfire_policy, max_concurrent, max_catchup,
               concurrency_key, target, retry_policy, delivery, timeout, misfire_grace, catchup_window, workflow_id
        FROM jobs_job WHERE id = t.job_id OFFSET 0) j, LATERAL (
        SELECT slug, status, max_in_flight, rate_per_second, rate_burst, disabled_types, circuit_breaker
        FROM tenants_tenant WHERE id = t.tenant_id OFFSET 0) tenant
), other AS MATERIALIZED (
    SELECT o.*, o.state = 'pending' AND NOT o.held AND o.due_at <= carillon_now() AS in_sight
    FROM fact, LATERAL (
        (SELECT id, state, scheduled_for, due_at, held, parked, parked_until
         FROM jobs_trigger w WHERE fact.unfinished AND w.job_id = fact.job_id AND w.phase = 'pending' LIMIT %(most)s)
        UNION ALL
        (SELECT id, state, scheduled_for, due_at, held, parked, parked_until
         FROM jobs_trigger u
         WHERE fact.unfinished AND u.job_id = fact.job_id AND u.phase IN ('in_flight', 'retrying')
         LIMIT %(most)s)) o
    WHERE o.id <> fact.id
)
SELECT fact.*, carillon_clock() AS now, others.*, begun.running_runs,
       (SELECT count(*) FROM jobs_trigger f
        WHERE fact.unfinished AND f.tenant_id = fact.tenant_id AND f.phase = 'in_flight')
           AS tenant_in_flight,
       type_load.queued AS type_queued, type_load.in_flight AS type_in_flight,
       type_load.urgent_queued AS type_urgent_queued, type_load.own_queued, type_load.own_in_flight,
       (SELECT count(*) FROM jobs_trigger f
        WHERE fact.state = 'queued' AND f.phase = 'in_flight' AND f.state = 'queued' AND f.job_type = fact.job_type
          AND f.tenant_id = fact.tenant_id AND f.queued_at < fact.queued_at) AS queued_before,
       queue."window" AS queue_window, queue.paused_at AS type_paused_at, queue.pause_reason AS type_pause_reason,
       queue.max_in_flight AS operators_cap, stop.stopped_at AS dispatch_stopped_at, stop.stop_reason,
       key_load.in_flight AS key_in_flight, key_load.ids AS key_ids,
       (SELECT count(*) FROM (
           SELECT FROM jobs_trigger ahead
           WHERE fact.unfinished AND ahead.tenant_id = fact.tenant_id AND ahead.job_type = fact.job_type
             AND ahead.priority = fact.priority AND ahead.phase IN ('pending', 'retrying') AND NOT ahead.held
             AND ahead.due_at < least(fact.due_at, carillon_now())
           LIMIT %(most_ahead)s) a) AS ahead,
       workers.present AS workers_present, workers.processes AS workers_processes, workers.seen_at AS workers_seen_at,
       leaders.expires_at AS led_until,
       attempt.started_at AS attempt_started_at, attempt.state AS attempt_state, attempt.error_code
FROM fact, LATERAL (
    -- under_way and in_flight: as dispatch counts the others; unparked, in_sight, parked_before: as release does.
    SELECT count(*) FILTER (WHERE state <> 'pending') AS others_under_way,
           count(*) FILTER (WHERE state IN ('queued', 'running')) AS others_in_flight,
           count(*) FILTER (WHERE state IN ('queued', 'running') AND NOT parked) AS others_unparked_in_flight,
           count(*) FILTER (WHERE state = 'retrying' AND NOT parked) AS others_unparked_retrying,
           count(*) FILTER (WHERE in_sight) AS others_in_sight,
           count(*) FILTER (WHERE parked AND parked_until IS NULL AND scheduled_for < fact.scheduled_for) AS parked_before,
           (array_agg(id ORDER BY scheduled_for) FILTER (WHERE state <> 'pending'))[:%(named)s] AS other_ids
    FROM other) others, LATERAL (
    SELECT CASE WHEN fact.unfinished AND fact.job_type = 'carillon.workflow'
        THEN carillon_running_runs(fact.workflow_id) ELSE 0 END AS running_runs OFFSET 0) begun, LATERAL (
    -- The triggers of all tenants decide whether there is room; only the tenant's own are reported.
    SELECT count(*) AS in_flight, count(*) FILTER (WHERE f.state = 'queued') AS queued,
           count(*) FILTER (WHERE f.state = 'queued' AND f.priority <= %(least_urgent)s) AS urgent_queued,
           count(*) FILTER (WHERE f.tenant_id = fact.tenant_id) AS own_in_flight,
           count(*) FILTER (WHERE f.tenant_id = fact.tenant_id AND f.state = 'queued') AS own_queued
    FROM jobs_trigger f
    WHERE fact.unfinished AND f.phase = 'in_flight' AND f.job_type = fact.job_type) type_load, LATERAL (
    SELECT count(*) AS in_flight, (array_agg(k.id ORDER BY k.scheduled_for))[:%(named)s] AS ids
    FROM jobs_trigger k
    WHERE fact.unfinished AND k.tenant_id = fact.tenant_id AND k.concurrency_key = fact.key AND k.concurrency_key <> ''
      AND k.phase = 'in_flight') key_load, LATERAL (
    SELECT count(*) FILTER (WHERE alive) AS present, sum(concurrency) FILTER (WHERE alive) AS processes,
           max(seen_at) AS seen_at
    FROM jobs_worker, LATERAL (SELECT seen_at > carillon_now() - %(silence)s::interval AS alive) a
    -- And its tenant's own pull workers, for a type that both kinds of workers serve.
    WHERE queues && ARRAY['jobs.' || fact.job_type, 'jobs.' || fact.job_type || '@' || fact.tenant_id]::varchar[]) workers, LATERAL (
    SELECT max(expires_at) AS expires_at FROM jobs_lease) leaders
LEFT JOIN LATERAL (
    SELECT "window", paused_at, pause_reason, max_in_flight FROM jobs_queue WHERE job_type = fact.job_type) queue ON true
LEFT JOIN jobs_installation stop ON stop.id = 1
LEFT JOIN LATERAL (
    SELECT started_at, state, error_code FROM jobs_attempt
    WHERE fact.attempt_count > 0 AND trigger_id = fact.id
    ORDER BY number DESC, started_at DESC LIMIT 1) attempt ON true;

-- name: line
-- A waiting trigger, behind the first %(limit)s triggers of its job that dispatch decides before it, read as dispatch
-- would read them (candidates of dispatch.sql), but without locks. At most %(most)s triggers of the job are looked at.
-- index: primary key, trigger_unfinished_by_job
-- returns: for each the columns that jobs.core.policies.decide needs, the asked one last; no row when the tenant has no
-- such trigger
WITH asked AS MATERIALIZED (
    SELECT id, job_id, job_type, scheduled_for, due_at, state, origin, attempt_count, replay_count
    FROM jobs_trigger WHERE id = %(id)s AND tenant_id = %(tenant_id)s
)
SELECT id, job_id, job_type, scheduled_for, due_at, state, origin, attempt_count, replay_count
FROM (
    (SELECT before.*, false AS is_asked FROM asked, LATERAL (
        SELECT w.id, w.job_id, w.job_type, w.scheduled_for, w.due_at, w.state, w.origin, w.attempt_count, w.replay_count
        FROM (SELECT * FROM jobs_trigger t
              WHERE t.job_id = asked.job_id AND t.phase IN ('pending', 'retrying') LIMIT %(most)s) w
        WHERE NOT w.held AND w.due_at <= carillon_now() AND (w.due_at, w.id) < (asked.due_at, asked.id)
        ORDER BY w.due_at, w.id LIMIT %(limit)s) before)
    UNION ALL
    SELECT asked.*, true AS is_asked FROM asked) line
ORDER BY is_asked, due_at, id;

-- name: job_facts
-- A job's unfinished triggers by state, and the one that has waited longest. At most ``limit`` triggers are looked at.
-- index: trigger_unfinished_by_job
-- returns: pending, queued, running, retrying, and the id of the oldest that waits (or null)
WITH unfinished AS MATERIALIZED (
    SELECT id, state, scheduled_for FROM jobs_trigger
    WHERE job_id = %(job_id)s AND tenant_id = %(tenant_id)s AND phase IN ('pending', 'retrying', 'in_flight')
    LIMIT %(limit)s
)
SELECT count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'queued') AS queued,
       count(*) FILTER (WHERE state = 'running') AS running, count(*) FILTER (WHERE state = 'retrying') AS retrying,
       (SELECT id FROM unfinished WHERE state <> 'running' ORDER BY scheduled_for LIMIT 1) AS oldest_waiting
FROM unfinished;

-- name: pace
-- A tenant's counts in the present minute and the one before: the firings that started, of one job type and of all, and
-- how long the attempts that ended had run.
-- index: primary key of jobs_activityminute
-- returns: seconds (that this covers), started, all_started, busy_seconds
SELECT 60 + extract(epoch FROM present.now - present.minute)::float AS seconds,
       coalesce(sum(a.started) FILTER (WHERE a.job_type = %(job_type)s), 0)::bigint AS started,
       coalesce(sum(a.started), 0)::bigint AS all_started,
       coalesce(sum(a.duration_us), 0)::float / 1000000 AS busy_seconds
FROM (SELECT carillon_now() AS now, date_trunc('minute', carillon_now(), 'UTC') AS minute) present
LEFT JOIN LATERAL (
    SELECT job_type, started, duration_us FROM jobs_activityminute
    WHERE minute IN (present.minute, present.minute - interval '1 minute') AND tenant_id = %(tenant_id)s) a ON true
GROUP BY present.now, present.minute;
