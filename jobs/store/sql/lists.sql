-- name: waiting
-- The first triggers to fall due after one instant and until another, over all lanes of these tenants and types. A
-- loose index scan jumps from lane to lane. It keeps the lanes whose first trigger is earliest, as many as rows are
-- wanted, and takes as many rows from each: no row of another lane can come before those.
-- index: trigger_lane
-- returns: id, the first to fall due first
WITH RECURSIVE lane AS (
    (SELECT tenant_id, job_type, priority, 1 AS nth FROM jobs_trigger
     WHERE phase IN ('pending', 'retrying') AND NOT held
       AND tenant_id >= %(first_tenant)s::bigint AND tenant_id <= %(last_tenant)s::bigint
     ORDER BY tenant_id, job_type, priority, due_at LIMIT 1)
    UNION ALL
    SELECT following.*, lane.nth + 1 FROM lane, LATERAL (
        SELECT tenant_id, job_type, priority FROM jobs_trigger t
        WHERE t.phase IN ('pending', 'retrying') AND NOT t.held AND t.tenant_id <= %(last_tenant)s::bigint
          AND (t.tenant_id, t.job_type, t.priority) > (lane.tenant_id, lane.job_type, lane.priority)
        ORDER BY t.tenant_id, t.job_type, t.priority, t.due_at LIMIT 1) following
    WHERE lane.nth < %(lanes)s
), heads AS (
    SELECT lane.tenant_id, lane.job_type, lane.priority FROM lane, LATERAL (
        SELECT t.due_at FROM jobs_trigger t
        WHERE t.phase IN ('pending', 'retrying') AND NOT t.held
          AND t.tenant_id = lane.tenant_id AND t.job_type = lane.job_type AND t.priority = lane.priority
          AND t.due_at > %(since)s::timestamptz AND t.due_at <= %(until)s::timestamptz
        ORDER BY t.tenant_id, t.job_type, t.priority, t.due_at LIMIT 1) first
    WHERE (%(tenant_ids)s::bigint[] IS NULL OR lane.tenant_id = ANY(%(tenant_ids)s::bigint[]))
      AND (%(job_type)s::text IS NULL OR lane.job_type = %(job_type)s::text)
    ORDER BY first.due_at LIMIT %(limit)s
)
SELECT due.id FROM heads, LATERAL (
    SELECT t.id, t.due_at FROM jobs_trigger t
    WHERE t.phase IN ('pending', 'retrying') AND NOT t.held
      AND t.tenant_id = heads.tenant_id AND t.job_type = heads.job_type AND t.priority = heads.priority
      AND t.due_at > %(since)s::timestamptz AND t.due_at <= %(until)s::timestamptz
    ORDER BY t.tenant_id, t.job_type, t.priority, t.due_at LIMIT %(limit)s) due
ORDER BY due.due_at, due.id LIMIT %(limit)s;

-- name: labelled
-- The newest jobs with a label: at most ``each`` of each of these tenants, and at most ``limit`` in all.
-- index: primary key of jobs_joblabel
-- returns: job_id, the newest first
SELECT labelled.job_id FROM unnest(%(tenant_ids)s::bigint[]) AS tenant(id), LATERAL (
    SELECT l.job_id FROM jobs_joblabel l
    WHERE l.tenant_id = tenant.id AND l.key = %(key)s::text COLLATE "C" AND l.value = %(value)s::text COLLATE "C"
    ORDER BY l.job_id DESC LIMIT %(each)s) labelled
ORDER BY labelled.job_id DESC LIMIT %(limit)s;

-- name: at_rest
-- The newest jobs in a status in which nothing fires: at most ``each`` of each of these tenants, and at most ``limit``
-- in all.
-- index: job_at_rest
-- returns: id, the newest first
SELECT resting.id FROM unnest(%(tenant_ids)s::bigint[]) AS tenant(id), LATERAL (
    SELECT j.id FROM jobs_job j
    WHERE j.tenant_id = tenant.id AND j.status = %(status)s::text AND j.status IN ('paused', 'completed', 'cancelled')
      AND j.deleted_at IS NULL
    ORDER BY j.id DESC LIMIT %(each)s) resting
ORDER BY resting.id DESC LIMIT %(limit)s;

-- name: named
-- Living jobs whose names lie between two texts: at most ``each`` of each of these tenants, and at most ``limit`` in
-- all.
-- index: job_name_unique_among_living
-- returns: id, the newest first
SELECT named.id FROM unnest(%(tenant_ids)s::bigint[]) AS tenant(id), LATERAL (
    SELECT j.id FROM jobs_job j
    WHERE j.tenant_id = tenant.id AND j.name >= %(first)s::text COLLATE "C" AND j.name < %(beyond)s::text COLLATE "C"
      AND j.deleted_at IS NULL AND j.workflow_id IS NULL
    ORDER BY j.name LIMIT %(each)s) named
ORDER BY named.id DESC LIMIT %(limit)s;

-- name: latest_firings
-- The latest firings until now of each of these jobs, for a row of dots.
-- index: trigger_one_per_firing
-- returns: job_id, id, scheduled_for, started_at, finished_at, state, reason, attempt_count; the earliest of a job
-- first
SELECT wanted.job_id, latest.*
FROM unnest(%(job_ids)s::uuid[]) AS wanted(job_id), LATERAL (
    SELECT t.id, t.scheduled_for, t.started_at, t.finished_at, t.state, t.reason, t.attempt_count FROM jobs_trigger t
    WHERE t.job_id = wanted.job_id AND t.scheduled_for <= carillon_now()
    ORDER BY t.job_id DESC, t.scheduled_for DESC LIMIT %(each)s) latest
ORDER BY wanted.job_id, latest.scheduled_for;

-- name: failures
-- The latest dead letters since then, of all tenants or of these. They are grouped by their common columns: the tenant,
-- the type, the last attempt's error code and HTTP status, and the job's target. Attempts that began before their
-- trigger was last started are not looked at, so that few of the attempts' partitions are read.
-- index: trigger_letter_died, trigger_letter_of_tenant, jobs_attempt_trigger, primary key of jobs_job
-- returns: tenant_id, job_type, error_code, http_status, target, count, jobs, first_at, last_at, sample_id; the
-- most first
WITH dead AS MATERIALIZED (
    (SELECT id, tenant_id, job_id, job_type, finished_at, coalesce(started_at, created_at) AS begun_at FROM jobs_trigger
     WHERE %(tenant_ids)s::bigint[] IS NULL AND phase = 'dead' AND dismissed_at IS NULL AND finished_at >= %(since)s::timestamptz
     ORDER BY finished_at DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT died.* FROM unnest(coalesce(%(tenant_ids)s::bigint[], '{}')) AS tenant(id), LATERAL (
        SELECT t.id, t.tenant_id, t.job_id, t.job_type, t.finished_at, coalesce(t.started_at, t.created_at) AS begun_at
        FROM jobs_trigger t
        WHERE t.tenant_id = tenant.id AND t.phase = 'dead' AND t.dismissed_at IS NULL AND t.finished_at >= %(since)s::timestamptz
        ORDER BY t.tenant_id DESC, t.finished_at DESC LIMIT %(limit)s) died
     ORDER BY died.finished_at DESC LIMIT %(limit)s)
), told AS (
    SELECT dead.*, coalesce(last.error_code, '') AS error_code, last.http_status,
           coalesce((SELECT j.target FROM jobs_job j WHERE j.id = dead.job_id), '') AS target
    FROM dead LEFT JOIN LATERAL (
        SELECT a.error_code, a.http_status FROM jobs_attempt a
        WHERE a.trigger_id = dead.id AND a.started_at >= dead.begun_at - interval '5 minutes'
        ORDER BY a.trigger_id DESC, a.number DESC LIMIT 1) last ON true
)
SELECT tenant_id, job_type, error_code, http_status, target, count(*) AS count, count(DISTINCT job_id) AS jobs,
       min(finished_at) AS first_at, max(finished_at) AS last_at,
       (array_agg(id ORDER BY finished_at DESC))[1] AS sample_id
FROM told
WHERE %(error_code)s::text IS NULL
   OR (job_type = %(job_type)s::text AND error_code = %(error_code)s::text AND target = %(target)s::text
       AND http_status IS NOT DISTINCT FROM %(http_status)s::int)
GROUP BY tenant_id, job_type, error_code, http_status, target
ORDER BY count DESC, last_at DESC LIMIT %(groups)s;
