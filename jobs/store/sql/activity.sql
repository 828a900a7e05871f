-- Activity counts by tenant and job type: by the minute, rolled up to hours, and in all for /metrics. Tenant -1 stands
-- for all tenants together, so that a chart of all tenants does not sum the rows of each. Their columns are the KINDS
-- of jobs/core/activity.py (jobs/store/db: LISTS); null: it did not happen. Nothing of the engine depends on them.

-- name: report
-- Leave a process's counts of a second for the leader to add up. All processes write at once, each a row of its own, so
-- that none waits for another. The table is not logged: the commit does not wait for the disk.
-- locks: none
-- plan: kept
INSERT INTO jobs_activityreport (minute, size, counts, own)
VALUES (date_trunc('minute', carillon_now(), 'UTC'), %(size)s, %(counts)s, %(own)s);

-- name: fold
-- Add reports to their minutes and to the totals, and delete them. In the totals, and for all tenants together, the types
-- that tenants declare are one; tenants without series of their own are tenant 0 of the totals. Nothing depends on the
-- counts, so the commit does not wait for the disk.
-- Rows are locked in the order of their keys, so that two beats that add to the same rows never deadlock.
-- locks: reports, SKIP LOCKED; rows of the minutes, then of the totals; lock_timeout
-- index: primary keys
-- plan: kept
-- returns: reports, how many were added; more, whether others may wait
WITH free AS MATERIALIZED (
    SELECT id, size FROM jobs_activityreport ORDER BY id LIMIT %(reports)s FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
    SELECT id FROM (SELECT id, sum(size) OVER (ORDER BY id) - size AS before FROM free) f WHERE before < %(size)s
), taken AS MATERIALIZED (
    DELETE FROM jobs_activityreport WHERE id = ANY(ARRAY(SELECT id FROM due)) RETURNING minute, counts, own
), unhurried AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
given AS MATERIALIZED (
    SELECT taken.minute AS at, CASE WHEN strpos(job_type, '@') > 0 THEN %(declared_types)s ELSE job_type END AS label, r.*
    FROM unhurried, taken, jsonb_populate_recordset(NULL::jobs_activityminute, taken.counts::jsonb) r
), minutes AS (
    INSERT INTO jobs_activityminute AS kept (minute, tenant_id, job_type,
    @each kind: {kind}@)
    SELECT at, whose.id, whose.type,
    @each kind: sum({kind})::bigint AS {kind}@
    FROM given, LATERAL (VALUES (tenant_id, job_type), (-1, label)) whose(id, type)
    GROUP BY at, whose.id, whose.type ORDER BY at, whose.id, whose.type
    ON CONFLICT (minute, tenant_id, job_type) DO UPDATE SET
    @each kind: {kind} = coalesce(kept.{kind} + excluded.{kind}, kept.{kind}, excluded.{kind})@
), totals AS (
    INSERT INTO jobs_activitytotal AS kept (tenant_id, job_type,
    @each kind: {kind}@)
    SELECT whose.id, label,
    @each kind: sum({kind})::bigint AS {kind}@
    FROM given, LATERAL (VALUES
        (-1), (coalesce((SELECT n.tenant_id FROM jobs_metrictenant n WHERE n.tenant_id = given.tenant_id), 0))) whose(id)
    GROUP BY whose.id, label ORDER BY whose.id, label
    ON CONFLICT (tenant_id, job_type) DO UPDATE SET
    @each kind: {kind} = coalesce(kept.{kind} + excluded.{kind}, kept.{kind}, excluded.{kind})@
), of_processes AS (
    INSERT INTO jobs_owntotal AS kept (name, labels, kind, count)
    SELECT r.name, r.labels, c.kind, sum(c.number::bigint)::bigint
    FROM taken, jsonb_to_recordset(taken.own::jsonb) AS r(name text, labels text[], counts jsonb),
         jsonb_each_text(r.counts) AS c(kind, number)
    GROUP BY r.name, r.labels, c.kind ORDER BY r.name, r.labels, c.kind
    ON CONFLICT (name, labels, kind) DO UPDATE SET count = kept.count + excluded.count
)
SELECT count(*)::int AS reports,
       (SELECT count(*) FROM free) > count(*) OR count(*) = %(reports)s AS more
FROM taken;

-- name: roll_up
-- Sum up the minutes of an hour. If it is done twice, or by two processes at once, the result is the same.
-- locks: rows of the hour, in the order of their keys, lock_timeout
-- index: primary keys
INSERT INTO jobs_activityhour (hour, tenant_id, job_type,
    @each kind: {kind}@)
SELECT %(hour)s::timestamptz, tenant_id, job_type,
       @each kind: sum({kind}) AS {kind}@
FROM jobs_activityminute
WHERE minute >= %(hour)s::timestamptz AND minute < %(hour)s::timestamptz + interval '1 hour'
GROUP BY tenant_id, job_type ORDER BY tenant_id, job_type
ON CONFLICT (hour, tenant_id, job_type) DO UPDATE SET
    @each kind: {kind} = excluded.{kind}@;

-- name: next_hour
-- The first hour that was not rolled up yet and has counts.
-- index: primary keys
-- returns: hour, whether it is_over (nothing adds to it any more); no row when there is none
SELECT date_trunc('hour', first.minute, 'UTC') AS hour,
       date_trunc('hour', first.minute, 'UTC') + interval '1 hour' + %(grace)s <= carillon_now()
       AND coalesce((SELECT minute FROM jobs_activityreport ORDER BY id LIMIT 1), 'infinity')
           >= date_trunc('hour', first.minute, 'UTC') + interval '1 hour' AS is_over
FROM (SELECT coalesce((SELECT hour + interval '1 hour' FROM jobs_activityhour WHERE hour > '2000-01-01Z'
                       ORDER BY hour DESC LIMIT 1),
                      '2000-01-01Z') AS since) rolled, LATERAL (
    SELECT minute FROM jobs_activityminute WHERE minute >= rolled.since ORDER BY minute LIMIT 1) first;

-- name: of_tenants
-- Activity of tenants in a window, of one job type or ('') of all: the sums of their hours, and of the minutes that
-- were not rolled up yet, by bucket and by job type. With by_minute, only the minutes are summed, which are kept for
-- two days. Each hour and each minute is looked up by its key, so the activity of other tenants does not add to the
-- cost.
-- index: primary keys
-- returns: bucket (from since on) or job_type, the busiest types first, %(limit)s rows at most; and the sum of each
-- kind
WITH rolled AS MATERIALIZED (
    SELECT coalesce((SELECT hour + interval '1 hour' FROM jobs_activityhour
                     WHERE hour > '2000-01-01Z' AND NOT %(by_minute)s
                     ORDER BY hour DESC LIMIT 1),
                    '2000-01-01Z') AS until
), fresh AS MATERIALIZED (
    SELECT greatest(%(since)s::timestamptz,
                    coalesce((SELECT minute FROM jobs_activityminute WHERE minute >= rolled.until ORDER BY minute LIMIT 1),
                             'infinity')) AS since,
           rolled.until
    FROM rolled
), counted AS (
    SELECT s.at, c.* FROM fresh, generate_series(%(since)s::timestamptz, least(%(until)s::timestamptz,
                                                 fresh.until - interval '1 hour'), interval '1 hour') AS s(at), LATERAL (
        SELECT job_type,
    @each kind: {kind}@
        FROM jobs_activityhour WHERE hour = s.at AND tenant_id = ANY(%(tenant_ids)s::bigint[])
            AND (job_type = %(job_type)s OR %(job_type)s = '') OFFSET 0) c
    UNION ALL
    SELECT s.at, c.* FROM fresh, generate_series(
        least(fresh.since, %(until)s::timestamptz + interval '1 minute'), %(until)s::timestamptz, interval '1 minute'
    ) AS s(at), LATERAL (
        SELECT job_type,
    @each kind: {kind}@
        FROM jobs_activityminute WHERE minute = s.at AND tenant_id = ANY(%(tenant_ids)s::bigint[])
            AND (job_type = %(job_type)s OR %(job_type)s = '') OFFSET 0) c
), sums AS (
    SELECT floor(extract(epoch FROM at - %(since)s::timestamptz) / %(bucket_seconds)s)::int AS bucket, job_type,
    @each kind: sum({kind})::bigint AS {kind}@
    FROM counted GROUP BY GROUPING SETS ((1), (job_type))
)
SELECT * FROM sums ORDER BY bucket NULLS LAST, started DESC NULLS LAST, job_type LIMIT %(limit)s;

-- name: retried_most
-- Those of some tenants that retried most in a window, by hours as far as these are rolled up, then by minutes;
-- by_minute: by minutes alone. Rows are looked up by key, as in of_tenants.
-- index: primary keys
-- returns: tenant_id, retried, most first, %(limit)s rows at most
WITH rolled AS MATERIALIZED (
    SELECT coalesce((SELECT hour + interval '1 hour' FROM jobs_activityhour
                     WHERE hour > '2000-01-01Z' AND NOT %(by_minute)s
                     ORDER BY hour DESC LIMIT 1),
                    %(since)s::timestamptz) AS until
), counted AS (
    SELECT c.* FROM rolled, generate_series(%(since)s::timestamptz, least(%(until)s::timestamptz,
                                            rolled.until - interval '1 hour'), interval '1 hour') AS s(at), LATERAL (
        SELECT tenant_id, retried FROM jobs_activityhour
        WHERE hour = s.at AND tenant_id = ANY(%(tenant_ids)s::bigint[])
            AND (job_type = %(job_type)s OR %(job_type)s = '') OFFSET 0) c
    UNION ALL
    SELECT c.* FROM rolled, generate_series(
        greatest(%(since)s::timestamptz, rolled.until,
                 date_trunc('minute', %(until)s::timestamptz - interval '2 days', 'UTC')),
        %(until)s::timestamptz, interval '1 minute') AS s(at), LATERAL (
        SELECT tenant_id, retried FROM jobs_activityminute
        WHERE minute = s.at AND tenant_id = ANY(%(tenant_ids)s::bigint[])
            AND (job_type = %(job_type)s OR %(job_type)s = '') OFFSET 0) c
)
SELECT tenant_id, sum(retried)::bigint AS retried FROM counted GROUP BY tenant_id HAVING sum(retried) > 0
ORDER BY retried DESC, tenant_id LIMIT %(limit)s;

-- name: purge_minute
-- Drop the counts of the oldest minute that no dropped partition removes, because they are in the default partition.
-- locks: rows of a minute, lock_timeout
-- index: primary key
-- returns: minute
DELETE FROM jobs_activityminute WHERE minute = (
    SELECT minute FROM jobs_activityminute WHERE minute < %(before)s::timestamptz ORDER BY minute LIMIT 1)
RETURNING minute;

-- name: purge_hour
-- As purge_minute, for counts by the hour.
-- locks: rows of an hour, lock_timeout
-- index: primary key
-- returns: hour
DELETE FROM jobs_activityhour WHERE hour = (
    SELECT hour FROM jobs_activityhour WHERE hour < %(before)s::timestamptz ORDER BY hour LIMIT 1)
RETURNING hour;

-- name: busiest
-- The tenants with most activity in this minute and the %(minutes)s before, and those that have series of their own,
-- active or not. No tenant whose slug is "other" is among them: it would be taken for all others.
-- index: primary keys
-- returns: tenant_id, count, named
WITH recent AS MATERIALIZED (
    SELECT tenant_id, sum(coalesce(created, 0) + coalesce(dispatched, 0) + coalesce(started, 0)) AS count
    FROM jobs_activityminute
    WHERE minute = ANY(ARRAY(SELECT date_trunc('minute', carillon_now(), 'UTC') - n * interval '1 minute'
                             FROM generate_series(0, %(minutes)s) n)) AND tenant_id > 0
    GROUP BY tenant_id
), wanted AS (
    SELECT tenant_id FROM jobs_metrictenant
    UNION (SELECT tenant_id FROM recent ORDER BY count DESC, tenant_id LIMIT %(limit)s)
)
SELECT tenant_id, coalesce((SELECT recent.count FROM recent WHERE recent.tenant_id = wanted.tenant_id), 0)::bigint AS count,
       EXISTS (SELECT FROM jobs_metrictenant n WHERE n.tenant_id = wanted.tenant_id) AS named
FROM wanted WHERE (SELECT slug FROM tenants_tenant WHERE id = wanted.tenant_id) <> 'other';

-- name: name_tenants
-- Give tenants series of their own from now on; their earlier activity stays in the series of all others.
-- index: primary key
INSERT INTO jobs_metrictenant (tenant_id, named_at)
SELECT id, carillon_clock() FROM unnest(%(tenant_ids)s::bigint[]) AS id ORDER BY id
ON CONFLICT (tenant_id) DO NOTHING;

-- name: unname_tenants
-- End the series of tenants that have none of their own any more. From now on their counts go to the series of all
-- others.
-- locks: rows of names and totals, SKIP LOCKED
-- index: primary keys
-- returns: tenant_id
WITH free AS MATERIALIZED (
    SELECT tenant_id FROM jobs_metrictenant WHERE tenant_id <> ALL(%(tenant_ids)s::bigint[])
    FOR UPDATE SKIP LOCKED
), unnamed AS (
    DELETE FROM jobs_metrictenant WHERE tenant_id IN (SELECT tenant_id FROM free) RETURNING tenant_id
), ended AS MATERIALIZED (
    SELECT tenant_id, job_type FROM jobs_activitytotal t
    WHERE tenant_id > 0 AND tenant_id <> ALL(%(tenant_ids)s::bigint[])
    FOR UPDATE SKIP LOCKED
), dropped AS (
    DELETE FROM jobs_activitytotal WHERE (tenant_id, job_type) IN (SELECT tenant_id, job_type FROM ended)
)
SELECT tenant_id FROM unnamed;
