-- Why a trigger waits: the figures dispatch goes by, for one trigger at a time. What they mean is said in jobs.explain;
-- the expressions are those of dispatch.sql (pick) and parking.sql (release), and tests hold the answers to them.

-- name: trigger_facts
-- Everything that decides whether one trigger may start now, and what became of it if it has.
-- index: primary key, trigger_in_flight, trigger_unfinished_of_job, trigger_parked, trigger_one_per_firing,
-- trigger_key_in_flight, trigger_lane, jobs_attempt_trigger
-- returns: one row, or none when the tenant has no such trigger
WITH fact AS MATERIALIZED (
    SELECT t.*, j.name AS job_name, j.status AS job_status, j.status_reason, j.deleted_at, j.overlap_policy,
           j.misfire_policy, j.max_concurrent, j.max_catchup, j.concurrency_key AS key, j.target, j.retry_policy,
           j.delivery, j.timeout, j.misfire_grace, j.catchup_window, j.next_fire_at, tenant.slug AS tenant,
           tenant.status AS tenant_status, tenant.max_in_flight AS tenant_max_in_flight, tenant.rate_per_second,
           tenant.rate_burst,
           t.state = 'pending' AND t.origin = 'schedule' AND t.attempt_count = 0 AND t.replay_count = 0 AS may_skip,
           t.due_at + j.misfire_grace < carillon_now() AS missed,
           t.due_at + j.catchup_window < carillon_now() AS too_old
    FROM (
        SELECT id, job_id, tenant_id, job_type, priority, origin, scheduled_for, due_at, state, reason, held, parked,
               parked_until, fence, attempt_count, budget_start, crash_count, replay_count, worker, lease_expires_at,
               cancel_requested, queued_at, started_at, finished_at
        FROM jobs_trigger WHERE id = %(id)s AND tenant_id = %(tenant_id)s) t, LATERAL (
        SELECT name, status, status_reason, deleted_at, overlap_policy, misfire_policy, max_concurrent, max_catchup,
               concurrency_key, target, retry_policy, delivery, timeout, misfire_grace, catchup_window, next_fire_at
        FROM jobs_job WHERE id = t.job_id OFFSET 0) j, LATERAL (
        SELECT slug, status, max_in_flight, rate_per_second, rate_burst
        FROM tenants_tenant WHERE id = t.tenant_id OFFSET 0) tenant
)
SELECT fact.*, late, late OR NOT may_skip AS must_run,
       overlap_policy <> 'allow' OR origin = 'backfill' OR late AND misfire_policy = 'backfill' AS serial,
       carillon_clock() AS now,
       others.unfinished AS others, others.in_flight AS others_in_flight, others.ids AS other_ids,
       (SELECT count(*) FROM jobs_trigger f
        WHERE f.tenant_id = fact.tenant_id AND f.state IN ('queued', 'running')) AS tenant_in_flight,
       type_load.queued AS type_queued, type_load.in_flight AS type_in_flight, type_load.queued_before,
       (SELECT "window" FROM jobs_queue WHERE job_type = fact.job_type) AS queue_window,
       key_load.in_flight AS key_in_flight, key_load.ids AS key_ids,
       (SELECT count(*) FROM (
           SELECT FROM jobs_trigger later
           WHERE later.job_id = fact.job_id AND later.scheduled_for > fact.scheduled_for
             AND later.due_at + fact.misfire_grace < carillon_now()
             AND later.state = 'pending' AND later.origin = 'schedule'
           LIMIT greatest(fact.max_catchup, 1)) l)
       + coalesce(
             next_fire_at + (due_at - scheduled_for) + misfire_grace < carillon_now(), false)::int AS later_missed,
       EXISTS (
           SELECT FROM jobs_trigger newer
           WHERE newer.job_id = fact.job_id AND newer.scheduled_for > fact.scheduled_for
             AND newer.due_at <= carillon_now() AND newer.state = 'pending' AND NOT newer.held
             AND newer.origin = 'schedule') AS newer_due,
       EXISTS (
           SELECT FROM jobs_trigger older
           WHERE older.job_id = fact.job_id AND older.scheduled_for < fact.scheduled_for
             AND older.due_at <= carillon_now() AND older.state = 'pending' AND older.origin = 'schedule') AS older_waits,
       -- What release would let go first, where only so many of the job may go.
       (SELECT count(*) FROM (
           SELECT FROM jobs_trigger first
           WHERE fact.parked AND fact.parked_until IS NULL AND first.job_id = fact.job_id AND first.parked
             AND first.parked_until IS NULL AND first.scheduled_for < fact.scheduled_for
           LIMIT %(most)s) f) AS parked_before,
       (SELECT count(*) FROM (
           SELECT FROM jobs_trigger other
           WHERE fact.parked AND fact.parked_until IS NULL AND other.job_id = fact.job_id AND other.state = 'pending'
             AND NOT other.held AND other.due_at <= carillon_now()
           LIMIT %(most)s) o) AS others_in_sight,
       -- Of the job's own that are due before it: those that will go, and whether one would be skipped as missed.
       (SELECT count(*) FROM (
           SELECT FROM jobs_trigger earlier
           WHERE earlier.job_id = fact.job_id AND earlier.state IN ('pending', 'retrying') AND NOT earlier.held
             AND earlier.due_at <= carillon_now() AND (earlier.due_at, earlier.id) < (fact.due_at, fact.id)
             AND (fact.misfire_policy NOT IN ('skip', 'fire_once') OR earlier.state = 'retrying'
                  OR earlier.origin <> 'schedule' OR earlier.attempt_count + earlier.replay_count > 0
                  OR earlier.due_at + fact.misfire_grace >= carillon_now())
           LIMIT %(most)s) e) AS due_before,
       EXISTS (
           SELECT FROM jobs_trigger earlier
           WHERE earlier.job_id = fact.job_id AND earlier.state = 'pending' AND NOT earlier.held
             AND earlier.origin = 'schedule' AND earlier.attempt_count + earlier.replay_count = 0
             AND earlier.due_at < fact.due_at AND earlier.due_at + fact.misfire_grace < carillon_now()
             AND earlier.due_at + fact.catchup_window >= carillon_now()) AS missed_before,
       (SELECT count(*) FROM (
           SELECT FROM jobs_trigger ahead
           WHERE ahead.tenant_id = fact.tenant_id AND ahead.job_type = fact.job_type
             AND ahead.priority = fact.priority AND ahead.state IN ('pending', 'retrying') AND NOT ahead.held
             AND ahead.due_at < least(fact.due_at, carillon_now())
           LIMIT %(most)s) a) AS ahead,
       workers.present AS workers_present, workers.processes AS workers_processes, workers.seen_at AS workers_seen_at,
       leaders.expires_at AS led_until,
       attempt.number AS attempt_number, attempt.started_at AS attempt_started_at, attempt.state AS attempt_state,
       attempt.error_code, attempt.http_status
FROM fact, LATERAL (
    SELECT origin IN ('catchup', 'backfill')
           OR may_skip AND missed AND misfire_policy IN ('fire_all', 'backfill') AS late) l, LATERAL (
    SELECT count(*) AS unfinished, count(*) FILTER (WHERE other.state <> 'retrying') AS in_flight,
           (array_agg(other.id ORDER BY other.scheduled_for))[:%(named)s] AS ids
    FROM jobs_trigger other
    WHERE other.job_id = fact.job_id AND other.id <> fact.id
      AND other.state IN ('queued', 'running', 'retrying')) others, LATERAL (
    SELECT count(*) AS in_flight, count(*) FILTER (WHERE f.state = 'queued') AS queued,
           count(*) FILTER (WHERE f.state = 'queued' AND f.queued_at < fact.queued_at) AS queued_before
    FROM jobs_trigger f WHERE f.state IN ('queued', 'running') AND f.job_type = fact.job_type) type_load, LATERAL (
    SELECT count(*) AS in_flight, (array_agg(k.id ORDER BY k.scheduled_for))[:%(named)s] AS ids
    FROM jobs_trigger k
    WHERE k.tenant_id = fact.tenant_id AND k.concurrency_key = fact.key AND k.concurrency_key <> ''
      AND k.state IN ('queued', 'running')) key_load, LATERAL (
    SELECT count(*) FILTER (WHERE alive) AS present, sum(concurrency) FILTER (WHERE alive) AS processes,
           max(seen_at) AS seen_at
    FROM jobs_worker, LATERAL (SELECT seen_at > carillon_now() - %(silence)s::interval AS alive) a
    WHERE queues @> ARRAY['jobs.' || fact.job_type]::varchar[]) workers, LATERAL (
    SELECT max(expires_at) AS expires_at FROM jobs_lease) leaders
LEFT JOIN LATERAL (
    SELECT number, started_at, state, error_code, http_status FROM jobs_attempt
    WHERE fact.attempt_count > 0 AND trigger_id = fact.id
    ORDER BY number DESC, started_at DESC LIMIT 1) attempt ON true;

-- name: job_facts
-- A job's unfinished triggers by state, as far as so many are looked at, and the one that has waited longest.
-- index: trigger_unfinished_of_job
-- returns: pending, queued, running, retrying, and the id of the oldest that waits (or null)
WITH unfinished AS MATERIALIZED (
    SELECT id, state, scheduled_for FROM jobs_trigger
    WHERE job_id = %(job_id)s AND tenant_id = %(tenant_id)s AND state IN ('pending', 'queued', 'running', 'retrying')
    LIMIT %(limit)s
)
SELECT count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'queued') AS queued,
       count(*) FILTER (WHERE state = 'running') AS running, count(*) FILTER (WHERE state = 'retrying') AS retrying,
       (SELECT id FROM unfinished WHERE state <> 'running' ORDER BY scheduled_for LIMIT 1) AS oldest_waiting
FROM unfinished;
