-- The figures that monitoring reads every few seconds. Each read is bounded by the number of triggers that may be in
-- flight, by the number of queues and processes, or by a limit; nothing counts a table. Counters come from
-- jobs_activitytotal. The time is asked for once a statement, because asking costs as much as reading a row.

-- name: totals
-- All counts since the beginning, by job type and tenant; "other" are the tenants without series of their own. Sums of
-- one series only go up: a tenant that loses its name loses its row, and its later activity is added to the others.
-- index: primary keys
-- returns: tenant (null: all of them), and a row of jobs_activitytotal
SELECT CASE WHEN total.tenant_id >= 0 THEN coalesce(tenant.slug, 'other') END AS tenant, total.*
FROM jobs_activitytotal total
    LEFT JOIN jobs_metrictenant named ON named.tenant_id = total.tenant_id
    LEFT JOIN tenants_tenant tenant ON tenant.id = named.tenant_id
WHERE total.tenant_id <= 0 OR tenant.id IS NOT NULL
ORDER BY total.job_type, tenant;

-- name: own
-- All counts that processes have reported about themselves. There are as many rows as the code has names, routes, steps
-- and buckets.
-- index: primary key
-- returns: name, labels, kind, count
SELECT name, labels, kind, count FROM jobs_owntotal ORDER BY name, labels;

-- name: ahead
-- Delays before firings are due: how long ago the first job should have got its next trigger (jobs of suspended tenants
-- wait on purpose), and catch-ups that are not done. Also the place that the notifier has reached. For the %(runs)s
-- oldest workflow runs that go on: how many there are, how many of them are paused, and for how long the oldest that is
-- not paused has gone on. For workflow tasks that have not ended: their number by state, among %(tasks)s that are
-- looked at.
-- index: job_next_fire, catchup_undecided, catchup_to_run, workflowrun_oldest, taskrun_unfinished, primary keys
-- returns: materialization_lag_seconds, catch_ups (at most %(limit)s of each stage), 0: nothing waits; read_xid (as
-- text) and read_event_id, null: it has not begun; running, paused, oldest_seconds (0: none goes on), waiting, ready,
-- started
SELECT coalesce(greatest(0, (
           SELECT extract(epoch FROM carillon_clock() - min(next_fire_at)) FROM (
               SELECT next_fire_at FROM jobs_job
               WHERE status = 'active' AND next_fire_at IS NOT NULL AND next_fire_at <= (SELECT carillon_now())
                 AND tenant_id <> ALL(ARRAY(SELECT id FROM tenants_tenant WHERE status = 'suspended'))
               ORDER BY next_fire_at LIMIT 1) late)), 0)::float
           AS materialization_lag_seconds,
       (SELECT count(*) FROM (
            SELECT FROM jobs_catchup WHERE finished_at IS NULL AND (
                reason <> '' OR NOT (policy = 'fire_all' OR cursor >= until_at)) ORDER BY id LIMIT %(limit)s) undecided)
       + (SELECT count(*) FROM (
            SELECT FROM jobs_catchup WHERE finished_at IS NULL AND reason = '' AND (
                policy = 'fire_all' OR cursor >= until_at) ORDER BY tenant_id, id LIMIT %(limit)s) to_run) AS catch_ups,
       reader.xid::text AS read_xid, reader.event_id AS read_event_id, runs.*, tasks.*
FROM (VALUES (1)) one LEFT JOIN jobs_feedreader reader ON reader.name = 'notifier', (
    SELECT count(*) AS running, count(paused_at) AS paused,
           coalesce(greatest(0, extract(epoch FROM carillon_clock()
                                        - min(created_at) FILTER (WHERE paused_at IS NULL))), 0)::float AS oldest_seconds
    FROM (SELECT created_at, paused_at FROM jobs_workflowrun WHERE state = 'running' ORDER BY id LIMIT %(runs)s) o) runs, (
    SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE state = 'ready') AS ready,
           count(*) FILTER (WHERE state = 'started') AS started
    FROM (SELECT state FROM jobs_taskrun WHERE state IN ('waiting', 'ready', 'started') LIMIT %(tasks)s) l) tasks;

-- name: messages
-- Messages that wait in Postgres because the broker is away, by job type, of the %(limit)s oldest.
-- index: primary key
-- returns: job_type, count, oldest_seconds
SELECT job_type, count(*) AS count,
       greatest(0, extract(epoch FROM carillon_clock() - min(created_at)))::float AS oldest_seconds
FROM (SELECT job_type, created_at FROM jobs_message ORDER BY id LIMIT %(limit)s) oldest GROUP BY job_type;

-- name: in_flight
-- Queued and running triggers by job type: as many as windows and caps let through.
-- index: trigger_in_flight
-- returns: job_type, state, count, the seconds since the oldest was queued, and how many leases are over
SELECT job_type, state, count(*) AS count,
       greatest(0, extract(epoch FROM carillon_clock() - min(queued_at)))::float AS oldest_seconds,
       count(*) FILTER (WHERE state = 'running' AND lease_expires_at < (SELECT carillon_now())) AS expired
FROM jobs_trigger WHERE phase = 'in_flight' GROUP BY job_type, state;

-- name: due
-- Triggers that are due and wait in dispatch's sight, by job type. Reads from lane to lane, as dispatch's sweep does.
-- The delay of the first trigger of each lane is exact. Of the %(lanes)s lanes that have waited longest, up to
-- %(limit)s triggers each are counted; of other lanes, one. Suspended tenants are left out, because their triggers wait
-- on purpose.
-- index: trigger_lane
-- returns: job_type, count, lag_seconds (0: nothing is due)
WITH RECURSIVE lane AS (
    (SELECT tenant_id, job_type, priority, due_at FROM jobs_trigger
     WHERE phase IN ('pending', 'retrying') AND NOT held
     ORDER BY tenant_id, job_type, priority, due_at LIMIT 1)
    UNION ALL
    SELECT following.* FROM lane, LATERAL (
        SELECT tenant_id, job_type, priority, due_at FROM jobs_trigger t
        WHERE t.phase IN ('pending', 'retrying') AND NOT t.held
          AND (t.tenant_id, t.job_type, t.priority) > (lane.tenant_id, lane.job_type, lane.priority)
        ORDER BY t.tenant_id, t.job_type, t.priority, t.due_at LIMIT 1) following
), shown AS MATERIALIZED (
    SELECT tenant_id, job_type, priority, due_at FROM lane
    WHERE tenant_id <> ALL(ARRAY(SELECT id FROM tenants_tenant WHERE status = 'suspended'))
), deep AS (
    SELECT longest.job_type, sum(counted.count - 1) AS more
    FROM (SELECT * FROM shown WHERE due_at <= (SELECT carillon_now()) ORDER BY due_at LIMIT %(lanes)s) longest, LATERAL (
        SELECT count(*) AS count FROM (
            SELECT FROM jobs_trigger t
            WHERE t.tenant_id = longest.tenant_id AND t.job_type = longest.job_type AND t.priority = longest.priority
              AND t.phase IN ('pending', 'retrying') AND NOT t.held AND t.due_at <= (SELECT carillon_now())
            ORDER BY t.due_at LIMIT %(limit)s) c) counted
    GROUP BY longest.job_type
)
SELECT job_type, (count(*) FILTER (WHERE due_at <= (SELECT carillon_now()))
                  + coalesce((SELECT more FROM deep WHERE deep.job_type = shown.job_type), 0))::bigint AS count,
       greatest(0, extract(epoch FROM carillon_clock() - min(due_at)))::float AS lag_seconds
FROM shown GROUP BY job_type;

-- name: parked
-- Triggers that are due and parked, by job type and cause: until another trigger has ended (overlap), for a time that
-- their target's rate or a crowded worker demands (rate), or until their target lets them go (target). For overlap,
-- %(limit)s triggers are looked at, and as many for the other two causes together.
-- index: trigger_parked, trigger_parked_until
-- returns: job_type, cause, count, lag_seconds
SELECT job_type, cause, count(*) AS count,
       max(extract(epoch FROM (SELECT carillon_now()) - due_at))::float AS lag_seconds
FROM ((SELECT CASE parked_for WHEN '' THEN 'rate' ELSE 'target' END AS cause, job_type, tenant_id, due_at FROM jobs_trigger
       WHERE parked_until IS NOT NULL ORDER BY parked_until LIMIT %(limit)s)
      UNION ALL
      (SELECT 'overlap', job_type, tenant_id, due_at FROM jobs_trigger
       WHERE parked AND parked_until IS NULL ORDER BY job_id, scheduled_for LIMIT %(limit)s)) looked_at
WHERE due_at <= (SELECT carillon_now())
  AND tenant_id <> ALL(ARRAY(SELECT id FROM tenants_tenant WHERE status = 'suspended'))
GROUP BY job_type, cause;

-- name: queues
-- The state of each queue that dispatchers share.
-- returns: job_type, window, rate, paused (0 or 1), paused_seconds, paused_by, pause_reason, and the operators' cap
SELECT job_type, "window", rate, (paused_at IS NOT NULL)::int AS paused,
       greatest(0, extract(epoch FROM carillon_now() - paused_at))::float AS paused_seconds, paused_by, pause_reason,
       max_in_flight
FROM jobs_queue;

-- name: levers
-- Whether an operator stopped dispatch, how many rules pause targets, and how many circuit breakers are open, up to
-- %(limit)s.
-- index: primary key, breaker_not_closed
-- returns: stopped, stopped_seconds, stopped_by, stop_reason, paused_targets, open_breakers
SELECT stop.seconds IS NOT NULL AS stopped, stop.seconds AS stopped_seconds, stop.stopped_by, stop.stop_reason,
       (SELECT count(*) FROM jobs_targetrule WHERE paused_at IS NOT NULL) AS paused_targets,
       (SELECT count(*) FROM (SELECT FROM jobs_breaker WHERE state <> 'closed' LIMIT %(limit)s) b) AS open_breakers
FROM (SELECT) one LEFT JOIN (
    SELECT greatest(0, extract(epoch FROM carillon_now() - stopped_at))::float AS seconds, stopped_by, stop_reason
    FROM jobs_installation WHERE id = 1 AND stopped_at IS NOT NULL) stop ON true;

-- name: leases
-- The leader, its term, and for how much longer it leads unless it renews the lease (below 0: the lease ran out).
-- index: primary key
-- returns: name, holder, term, seconds_left
SELECT name, holder, term, extract(epoch FROM expires_at - carillon_clock())::float AS seconds_left
FROM jobs_lease ORDER BY name LIMIT %(limit)s;

-- name: past_retention
-- Ended triggers that retention should have dropped, among the %(limit)s oldest.
-- index: primary key (UUIDv7 ids follow time)
-- returns: count
SELECT count(*) AS count FROM (
    SELECT state, finished_at FROM jobs_trigger WHERE id < %(before_id)s::uuid ORDER BY id LIMIT %(limit)s) oldest
WHERE state IN ('succeeded', 'dead', 'skipped', 'cancelled') AND finished_at < carillon_now() - %(retention)s;

-- name: partitions_ahead
-- How far ahead of the clock each partitioned table has partitions; 0: new rows go to the default partition.
-- returns: name (of the table), seconds
SELECT parent.relname::text AS name,
       greatest(0, extract(epoch FROM max(
           (regexp_match(pg_get_expr(part.relpartbound, part.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz)
           - carillon_now()))::float AS seconds
FROM unnest(%(tables)s::text[]) AS wanted(name)
    JOIN pg_class parent ON parent.oid = wanted.name::regclass
    JOIN pg_inherits i ON i.inhparent = parent.oid JOIN pg_class part ON part.oid = i.inhrelid
GROUP BY parent.relname ORDER BY parent.relname;

-- name: connections
-- Connections of all clients to the server, and how many the server allows.
-- returns: used, most
SELECT count(*) AS used, current_setting('max_connections')::int AS most
FROM pg_stat_activity WHERE backend_type = 'client backend';
