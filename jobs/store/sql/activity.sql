-- Counts of what happened, by tenant and job type: by the minute, rolled up to hours, and in all for /metrics. Their
-- columns are the KINDS of jobs/core/activity.py; null: it did not happen. Nothing of the engine depends on them.

-- name: add
-- Add a process's counts to the present minute and to the totals. In the totals the types that tenants declare are one,
-- tenants without series of their own are tenant 0, and all tenants together are tenant -1. Nothing depends on it, so its
-- commit does not wait for the disk.
-- Rows are locked in the order of their keys, so that two processes that add to the same ones never deadlock.
-- locks: rows of the minute, then of the totals; lock_timeout
-- index: primary keys
-- plan: kept
WITH unhurried AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
given AS MATERIALIZED (
    SELECT r.* FROM unhurried, jsonb_populate_recordset(NULL::jobs_activityminute, %(rows)s::jsonb) r
), total AS (
    INSERT INTO jobs_activitytotal AS kept (tenant_id, job_type,
    created, withdrawn, dispatched, handed_back, messages_lost, started, ended_succeeded, ended_failed,
    ended_timed_out, ended_lost, ended_stale, ended_cancelled, retried, cancelled, replayed, buried_exhausted,
    buried_permanent, buried_poison, buried_lost, skipped_misfire, skipped_coalesced, skipped_overlap,
    skipped_collapsed, skipped_paused, skipped_frozen, duplicates_prevented, lag_us, duration_us, lag_0, lag_1,
    lag_2, lag_3, lag_4, lag_5, lag_6, lag_7, lag_8, lag_9, lag_10, lag_11, lag_12, lag_13, lag_14, lag_15, lag_16,
    lag_17, lag_18, lag_19, lag_20, duration_0, duration_1, duration_2, duration_3, duration_4, duration_5,
    duration_6, duration_7, duration_8, duration_9, duration_10, duration_11, duration_12, duration_13, duration_14,
    duration_15, duration_16, duration_17, duration_18, duration_19, duration_20)
    SELECT whose.id,
           CASE WHEN strpos(job_type, '@') > 0 THEN %(declared_types)s ELSE job_type END AS label,
       sum(created) AS created, sum(withdrawn) AS withdrawn, sum(dispatched) AS dispatched,
       sum(handed_back) AS handed_back, sum(messages_lost) AS messages_lost, sum(started) AS started,
       sum(ended_succeeded) AS ended_succeeded, sum(ended_failed) AS ended_failed,
       sum(ended_timed_out) AS ended_timed_out, sum(ended_lost) AS ended_lost, sum(ended_stale) AS ended_stale,
       sum(ended_cancelled) AS ended_cancelled, sum(retried) AS retried, sum(cancelled) AS cancelled,
       sum(replayed) AS replayed, sum(buried_exhausted) AS buried_exhausted,
       sum(buried_permanent) AS buried_permanent, sum(buried_poison) AS buried_poison,
       sum(buried_lost) AS buried_lost, sum(skipped_misfire) AS skipped_misfire,
       sum(skipped_coalesced) AS skipped_coalesced, sum(skipped_overlap) AS skipped_overlap,
       sum(skipped_collapsed) AS skipped_collapsed, sum(skipped_paused) AS skipped_paused,
       sum(skipped_frozen) AS skipped_frozen, sum(duplicates_prevented) AS duplicates_prevented,
       sum(lag_us) AS lag_us, sum(duration_us) AS duration_us, sum(lag_0) AS lag_0, sum(lag_1) AS lag_1,
       sum(lag_2) AS lag_2, sum(lag_3) AS lag_3, sum(lag_4) AS lag_4, sum(lag_5) AS lag_5, sum(lag_6) AS lag_6,
       sum(lag_7) AS lag_7, sum(lag_8) AS lag_8, sum(lag_9) AS lag_9, sum(lag_10) AS lag_10, sum(lag_11) AS lag_11,
       sum(lag_12) AS lag_12, sum(lag_13) AS lag_13, sum(lag_14) AS lag_14, sum(lag_15) AS lag_15,
       sum(lag_16) AS lag_16, sum(lag_17) AS lag_17, sum(lag_18) AS lag_18, sum(lag_19) AS lag_19,
       sum(lag_20) AS lag_20, sum(duration_0) AS duration_0, sum(duration_1) AS duration_1,
       sum(duration_2) AS duration_2, sum(duration_3) AS duration_3, sum(duration_4) AS duration_4,
       sum(duration_5) AS duration_5, sum(duration_6) AS duration_6, sum(duration_7) AS duration_7,
       sum(duration_8) AS duration_8, sum(duration_9) AS duration_9, sum(duration_10) AS duration_10,
       sum(duration_11) AS duration_11, sum(duration_12) AS duration_12, sum(duration_13) AS duration_13,
       sum(duration_14) AS duration_14, sum(duration_15) AS duration_15, sum(duration_16) AS duration_16,
       sum(duration_17) AS duration_17, sum(duration_18) AS duration_18, sum(duration_19) AS duration_19,
       sum(duration_20) AS duration_20
    FROM given, LATERAL (VALUES
        (-1), (coalesce((SELECT n.tenant_id FROM jobs_metrictenant n WHERE n.tenant_id = given.tenant_id), 0))) whose(id)
    GROUP BY whose.id, label ORDER BY whose.id, label
    ON CONFLICT (tenant_id, job_type) DO UPDATE SET
    created = coalesce(kept.created + excluded.created, kept.created, excluded.created),
    withdrawn = coalesce(kept.withdrawn + excluded.withdrawn, kept.withdrawn, excluded.withdrawn),
    dispatched = coalesce(kept.dispatched + excluded.dispatched, kept.dispatched, excluded.dispatched),
    handed_back = coalesce(kept.handed_back + excluded.handed_back, kept.handed_back, excluded.handed_back),
    messages_lost = coalesce(kept.messages_lost + excluded.messages_lost, kept.messages_lost, excluded.messages_lost),
    started = coalesce(kept.started + excluded.started, kept.started, excluded.started),
    ended_succeeded = coalesce(kept.ended_succeeded + excluded.ended_succeeded, kept.ended_succeeded, excluded.ended_succeeded),
    ended_failed = coalesce(kept.ended_failed + excluded.ended_failed, kept.ended_failed, excluded.ended_failed),
    ended_timed_out = coalesce(kept.ended_timed_out + excluded.ended_timed_out, kept.ended_timed_out, excluded.ended_timed_out),
    ended_lost = coalesce(kept.ended_lost + excluded.ended_lost, kept.ended_lost, excluded.ended_lost),
    ended_stale = coalesce(kept.ended_stale + excluded.ended_stale, kept.ended_stale, excluded.ended_stale),
    ended_cancelled = coalesce(kept.ended_cancelled + excluded.ended_cancelled, kept.ended_cancelled, excluded.ended_cancelled),
    retried = coalesce(kept.retried + excluded.retried, kept.retried, excluded.retried),
    cancelled = coalesce(kept.cancelled + excluded.cancelled, kept.cancelled, excluded.cancelled),
    replayed = coalesce(kept.replayed + excluded.replayed, kept.replayed, excluded.replayed),
    buried_exhausted = coalesce(kept.buried_exhausted + excluded.buried_exhausted, kept.buried_exhausted, excluded.buried_exhausted),
    buried_permanent = coalesce(kept.buried_permanent + excluded.buried_permanent, kept.buried_permanent, excluded.buried_permanent),
    buried_poison = coalesce(kept.buried_poison + excluded.buried_poison, kept.buried_poison, excluded.buried_poison),
    buried_lost = coalesce(kept.buried_lost + excluded.buried_lost, kept.buried_lost, excluded.buried_lost),
    skipped_misfire = coalesce(kept.skipped_misfire + excluded.skipped_misfire, kept.skipped_misfire, excluded.skipped_misfire),
    skipped_coalesced = coalesce(kept.skipped_coalesced + excluded.skipped_coalesced, kept.skipped_coalesced, excluded.skipped_coalesced),
    skipped_overlap = coalesce(kept.skipped_overlap + excluded.skipped_overlap, kept.skipped_overlap, excluded.skipped_overlap),
    skipped_collapsed = coalesce(kept.skipped_collapsed + excluded.skipped_collapsed, kept.skipped_collapsed, excluded.skipped_collapsed),
    skipped_paused = coalesce(kept.skipped_paused + excluded.skipped_paused, kept.skipped_paused, excluded.skipped_paused),
    skipped_frozen = coalesce(kept.skipped_frozen + excluded.skipped_frozen, kept.skipped_frozen, excluded.skipped_frozen),
    duplicates_prevented = coalesce(kept.duplicates_prevented + excluded.duplicates_prevented, kept.duplicates_prevented, excluded.duplicates_prevented),
    lag_us = coalesce(kept.lag_us + excluded.lag_us, kept.lag_us, excluded.lag_us),
    duration_us = coalesce(kept.duration_us + excluded.duration_us, kept.duration_us, excluded.duration_us),
    lag_0 = coalesce(kept.lag_0 + excluded.lag_0, kept.lag_0, excluded.lag_0),
    lag_1 = coalesce(kept.lag_1 + excluded.lag_1, kept.lag_1, excluded.lag_1),
    lag_2 = coalesce(kept.lag_2 + excluded.lag_2, kept.lag_2, excluded.lag_2),
    lag_3 = coalesce(kept.lag_3 + excluded.lag_3, kept.lag_3, excluded.lag_3),
    lag_4 = coalesce(kept.lag_4 + excluded.lag_4, kept.lag_4, excluded.lag_4),
    lag_5 = coalesce(kept.lag_5 + excluded.lag_5, kept.lag_5, excluded.lag_5),
    lag_6 = coalesce(kept.lag_6 + excluded.lag_6, kept.lag_6, excluded.lag_6),
    lag_7 = coalesce(kept.lag_7 + excluded.lag_7, kept.lag_7, excluded.lag_7),
    lag_8 = coalesce(kept.lag_8 + excluded.lag_8, kept.lag_8, excluded.lag_8),
    lag_9 = coalesce(kept.lag_9 + excluded.lag_9, kept.lag_9, excluded.lag_9),
    lag_10 = coalesce(kept.lag_10 + excluded.lag_10, kept.lag_10, excluded.lag_10),
    lag_11 = coalesce(kept.lag_11 + excluded.lag_11, kept.lag_11, excluded.lag_11),
    lag_12 = coalesce(kept.lag_12 + excluded.lag_12, kept.lag_12, excluded.lag_12),
    lag_13 = coalesce(kept.lag_13 + excluded.lag_13, kept.lag_13, excluded.lag_13),
    lag_14 = coalesce(kept.lag_14 + excluded.lag_14, kept.lag_14, excluded.lag_14),
    lag_15 = coalesce(kept.lag_15 + excluded.lag_15, kept.lag_15, excluded.lag_15),
    lag_16 = coalesce(kept.lag_16 + excluded.lag_16, kept.lag_16, excluded.lag_16),
    lag_17 = coalesce(kept.lag_17 + excluded.lag_17, kept.lag_17, excluded.lag_17),
    lag_18 = coalesce(kept.lag_18 + excluded.lag_18, kept.lag_18, excluded.lag_18),
    lag_19 = coalesce(kept.lag_19 + excluded.lag_19, kept.lag_19, excluded.lag_19),
    lag_20 = coalesce(kept.lag_20 + excluded.lag_20, kept.lag_20, excluded.lag_20),
    duration_0 = coalesce(kept.duration_0 + excluded.duration_0, kept.duration_0, excluded.duration_0),
    duration_1 = coalesce(kept.duration_1 + excluded.duration_1, kept.duration_1, excluded.duration_1),
    duration_2 = coalesce(kept.duration_2 + excluded.duration_2, kept.duration_2, excluded.duration_2),
    duration_3 = coalesce(kept.duration_3 + excluded.duration_3, kept.duration_3, excluded.duration_3),
    duration_4 = coalesce(kept.duration_4 + excluded.duration_4, kept.duration_4, excluded.duration_4),
    duration_5 = coalesce(kept.duration_5 + excluded.duration_5, kept.duration_5, excluded.duration_5),
    duration_6 = coalesce(kept.duration_6 + excluded.duration_6, kept.duration_6, excluded.duration_6),
    duration_7 = coalesce(kept.duration_7 + excluded.duration_7, kept.duration_7, excluded.duration_7),
    duration_8 = coalesce(kept.duration_8 + excluded.duration_8, kept.duration_8, excluded.duration_8),
    duration_9 = coalesce(kept.duration_9 + excluded.duration_9, kept.duration_9, excluded.duration_9),
    duration_10 = coalesce(kept.duration_10 + excluded.duration_10, kept.duration_10, excluded.duration_10),
    duration_11 = coalesce(kept.duration_11 + excluded.duration_11, kept.duration_11, excluded.duration_11),
    duration_12 = coalesce(kept.duration_12 + excluded.duration_12, kept.duration_12, excluded.duration_12),
    duration_13 = coalesce(kept.duration_13 + excluded.duration_13, kept.duration_13, excluded.duration_13),
    duration_14 = coalesce(kept.duration_14 + excluded.duration_14, kept.duration_14, excluded.duration_14),
    duration_15 = coalesce(kept.duration_15 + excluded.duration_15, kept.duration_15, excluded.duration_15),
    duration_16 = coalesce(kept.duration_16 + excluded.duration_16, kept.duration_16, excluded.duration_16),
    duration_17 = coalesce(kept.duration_17 + excluded.duration_17, kept.duration_17, excluded.duration_17),
    duration_18 = coalesce(kept.duration_18 + excluded.duration_18, kept.duration_18, excluded.duration_18),
    duration_19 = coalesce(kept.duration_19 + excluded.duration_19, kept.duration_19, excluded.duration_19),
    duration_20 = coalesce(kept.duration_20 + excluded.duration_20, kept.duration_20, excluded.duration_20)
)
INSERT INTO jobs_activityminute AS kept (minute, tenant_id, job_type,
    created, withdrawn, dispatched, handed_back, messages_lost, started, ended_succeeded, ended_failed,
    ended_timed_out, ended_lost, ended_stale, ended_cancelled, retried, cancelled, replayed, buried_exhausted,
    buried_permanent, buried_poison, buried_lost, skipped_misfire, skipped_coalesced, skipped_overlap,
    skipped_collapsed, skipped_paused, skipped_frozen, duplicates_prevented, lag_us, duration_us, lag_0, lag_1,
    lag_2, lag_3, lag_4, lag_5, lag_6, lag_7, lag_8, lag_9, lag_10, lag_11, lag_12, lag_13, lag_14, lag_15, lag_16,
    lag_17, lag_18, lag_19, lag_20, duration_0, duration_1, duration_2, duration_3, duration_4, duration_5,
    duration_6, duration_7, duration_8, duration_9, duration_10, duration_11, duration_12, duration_13, duration_14,
    duration_15, duration_16, duration_17, duration_18, duration_19, duration_20)
SELECT date_trunc('minute', carillon_now(), 'UTC'), tenant_id, job_type,
    created, withdrawn, dispatched, handed_back, messages_lost, started, ended_succeeded, ended_failed,
    ended_timed_out, ended_lost, ended_stale, ended_cancelled, retried, cancelled, replayed, buried_exhausted,
    buried_permanent, buried_poison, buried_lost, skipped_misfire, skipped_coalesced, skipped_overlap,
    skipped_collapsed, skipped_paused, skipped_frozen, duplicates_prevented, lag_us, duration_us, lag_0, lag_1,
    lag_2, lag_3, lag_4, lag_5, lag_6, lag_7, lag_8, lag_9, lag_10, lag_11, lag_12, lag_13, lag_14, lag_15, lag_16,
    lag_17, lag_18, lag_19, lag_20, duration_0, duration_1, duration_2, duration_3, duration_4, duration_5,
    duration_6, duration_7, duration_8, duration_9, duration_10, duration_11, duration_12, duration_13, duration_14,
    duration_15, duration_16, duration_17, duration_18, duration_19, duration_20
FROM given ORDER BY tenant_id, job_type
ON CONFLICT (minute, tenant_id, job_type) DO UPDATE SET
    created = coalesce(kept.created + excluded.created, kept.created, excluded.created),
    withdrawn = coalesce(kept.withdrawn + excluded.withdrawn, kept.withdrawn, excluded.withdrawn),
    dispatched = coalesce(kept.dispatched + excluded.dispatched, kept.dispatched, excluded.dispatched),
    handed_back = coalesce(kept.handed_back + excluded.handed_back, kept.handed_back, excluded.handed_back),
    messages_lost = coalesce(kept.messages_lost + excluded.messages_lost, kept.messages_lost, excluded.messages_lost),
    started = coalesce(kept.started + excluded.started, kept.started, excluded.started),
    ended_succeeded = coalesce(kept.ended_succeeded + excluded.ended_succeeded, kept.ended_succeeded, excluded.ended_succeeded),
    ended_failed = coalesce(kept.ended_failed + excluded.ended_failed, kept.ended_failed, excluded.ended_failed),
    ended_timed_out = coalesce(kept.ended_timed_out + excluded.ended_timed_out, kept.ended_timed_out, excluded.ended_timed_out),
    ended_lost = coalesce(kept.ended_lost + excluded.ended_lost, kept.ended_lost, excluded.ended_lost),
    ended_stale = coalesce(kept.ended_stale + excluded.ended_stale, kept.ended_stale, excluded.ended_stale),
    ended_cancelled = coalesce(kept.ended_cancelled + excluded.ended_cancelled, kept.ended_cancelled, excluded.ended_cancelled),
    retried = coalesce(kept.retried + excluded.retried, kept.retried, excluded.retried),
    cancelled = coalesce(kept.cancelled + excluded.cancelled, kept.cancelled, excluded.cancelled),
    replayed = coalesce(kept.replayed + excluded.replayed, kept.replayed, excluded.replayed),
    buried_exhausted = coalesce(kept.buried_exhausted + excluded.buried_exhausted, kept.buried_exhausted, excluded.buried_exhausted),
    buried_permanent = coalesce(kept.buried_permanent + excluded.buried_permanent, kept.buried_permanent, excluded.buried_permanent),
    buried_poison = coalesce(kept.buried_poison + excluded.buried_poison, kept.buried_poison, excluded.buried_poison),
    buried_lost = coalesce(kept.buried_lost + excluded.buried_lost, kept.buried_lost, excluded.buried_lost),
    skipped_misfire = coalesce(kept.skipped_misfire + excluded.skipped_misfire, kept.skipped_misfire, excluded.skipped_misfire),
    skipped_coalesced = coalesce(kept.skipped_coalesced + excluded.skipped_coalesced, kept.skipped_coalesced, excluded.skipped_coalesced),
    skipped_overlap = coalesce(kept.skipped_overlap + excluded.skipped_overlap, kept.skipped_overlap, excluded.skipped_overlap),
    skipped_collapsed = coalesce(kept.skipped_collapsed + excluded.skipped_collapsed, kept.skipped_collapsed, excluded.skipped_collapsed),
    skipped_paused = coalesce(kept.skipped_paused + excluded.skipped_paused, kept.skipped_paused, excluded.skipped_paused),
    skipped_frozen = coalesce(kept.skipped_frozen + excluded.skipped_frozen, kept.skipped_frozen, excluded.skipped_frozen),
    duplicates_prevented = coalesce(kept.duplicates_prevented + excluded.duplicates_prevented, kept.duplicates_prevented, excluded.duplicates_prevented),
    lag_us = coalesce(kept.lag_us + excluded.lag_us, kept.lag_us, excluded.lag_us),
    duration_us = coalesce(kept.duration_us + excluded.duration_us, kept.duration_us, excluded.duration_us),
    lag_0 = coalesce(kept.lag_0 + excluded.lag_0, kept.lag_0, excluded.lag_0),
    lag_1 = coalesce(kept.lag_1 + excluded.lag_1, kept.lag_1, excluded.lag_1),
    lag_2 = coalesce(kept.lag_2 + excluded.lag_2, kept.lag_2, excluded.lag_2),
    lag_3 = coalesce(kept.lag_3 + excluded.lag_3, kept.lag_3, excluded.lag_3),
    lag_4 = coalesce(kept.lag_4 + excluded.lag_4, kept.lag_4, excluded.lag_4),
    lag_5 = coalesce(kept.lag_5 + excluded.lag_5, kept.lag_5, excluded.lag_5),
    lag_6 = coalesce(kept.lag_6 + excluded.lag_6, kept.lag_6, excluded.lag_6),
    lag_7 = coalesce(kept.lag_7 + excluded.lag_7, kept.lag_7, excluded.lag_7),
    lag_8 = coalesce(kept.lag_8 + excluded.lag_8, kept.lag_8, excluded.lag_8),
    lag_9 = coalesce(kept.lag_9 + excluded.lag_9, kept.lag_9, excluded.lag_9),
    lag_10 = coalesce(kept.lag_10 + excluded.lag_10, kept.lag_10, excluded.lag_10),
    lag_11 = coalesce(kept.lag_11 + excluded.lag_11, kept.lag_11, excluded.lag_11),
    lag_12 = coalesce(kept.lag_12 + excluded.lag_12, kept.lag_12, excluded.lag_12),
    lag_13 = coalesce(kept.lag_13 + excluded.lag_13, kept.lag_13, excluded.lag_13),
    lag_14 = coalesce(kept.lag_14 + excluded.lag_14, kept.lag_14, excluded.lag_14),
    lag_15 = coalesce(kept.lag_15 + excluded.lag_15, kept.lag_15, excluded.lag_15),
    lag_16 = coalesce(kept.lag_16 + excluded.lag_16, kept.lag_16, excluded.lag_16),
    lag_17 = coalesce(kept.lag_17 + excluded.lag_17, kept.lag_17, excluded.lag_17),
    lag_18 = coalesce(kept.lag_18 + excluded.lag_18, kept.lag_18, excluded.lag_18),
    lag_19 = coalesce(kept.lag_19 + excluded.lag_19, kept.lag_19, excluded.lag_19),
    lag_20 = coalesce(kept.lag_20 + excluded.lag_20, kept.lag_20, excluded.lag_20),
    duration_0 = coalesce(kept.duration_0 + excluded.duration_0, kept.duration_0, excluded.duration_0),
    duration_1 = coalesce(kept.duration_1 + excluded.duration_1, kept.duration_1, excluded.duration_1),
    duration_2 = coalesce(kept.duration_2 + excluded.duration_2, kept.duration_2, excluded.duration_2),
    duration_3 = coalesce(kept.duration_3 + excluded.duration_3, kept.duration_3, excluded.duration_3),
    duration_4 = coalesce(kept.duration_4 + excluded.duration_4, kept.duration_4, excluded.duration_4),
    duration_5 = coalesce(kept.duration_5 + excluded.duration_5, kept.duration_5, excluded.duration_5),
    duration_6 = coalesce(kept.duration_6 + excluded.duration_6, kept.duration_6, excluded.duration_6),
    duration_7 = coalesce(kept.duration_7 + excluded.duration_7, kept.duration_7, excluded.duration_7),
    duration_8 = coalesce(kept.duration_8 + excluded.duration_8, kept.duration_8, excluded.duration_8),
    duration_9 = coalesce(kept.duration_9 + excluded.duration_9, kept.duration_9, excluded.duration_9),
    duration_10 = coalesce(kept.duration_10 + excluded.duration_10, kept.duration_10, excluded.duration_10),
    duration_11 = coalesce(kept.duration_11 + excluded.duration_11, kept.duration_11, excluded.duration_11),
    duration_12 = coalesce(kept.duration_12 + excluded.duration_12, kept.duration_12, excluded.duration_12),
    duration_13 = coalesce(kept.duration_13 + excluded.duration_13, kept.duration_13, excluded.duration_13),
    duration_14 = coalesce(kept.duration_14 + excluded.duration_14, kept.duration_14, excluded.duration_14),
    duration_15 = coalesce(kept.duration_15 + excluded.duration_15, kept.duration_15, excluded.duration_15),
    duration_16 = coalesce(kept.duration_16 + excluded.duration_16, kept.duration_16, excluded.duration_16),
    duration_17 = coalesce(kept.duration_17 + excluded.duration_17, kept.duration_17, excluded.duration_17),
    duration_18 = coalesce(kept.duration_18 + excluded.duration_18, kept.duration_18, excluded.duration_18),
    duration_19 = coalesce(kept.duration_19 + excluded.duration_19, kept.duration_19, excluded.duration_19),
    duration_20 = coalesce(kept.duration_20 + excluded.duration_20, kept.duration_20, excluded.duration_20);

-- name: roll_up
-- Sum the minutes of an hour up. Done twice, or by two at once, it comes to the same.
-- locks: rows of the hour, in the order of their keys, lock_timeout
-- index: primary keys
INSERT INTO jobs_activityhour (hour, tenant_id, job_type,
    created, withdrawn, dispatched, handed_back, messages_lost, started, ended_succeeded, ended_failed,
    ended_timed_out, ended_lost, ended_stale, ended_cancelled, retried, cancelled, replayed, buried_exhausted,
    buried_permanent, buried_poison, buried_lost, skipped_misfire, skipped_coalesced, skipped_overlap,
    skipped_collapsed, skipped_paused, skipped_frozen, duplicates_prevented, lag_us, duration_us, lag_0, lag_1,
    lag_2, lag_3, lag_4, lag_5, lag_6, lag_7, lag_8, lag_9, lag_10, lag_11, lag_12, lag_13, lag_14, lag_15, lag_16,
    lag_17, lag_18, lag_19, lag_20, duration_0, duration_1, duration_2, duration_3, duration_4, duration_5,
    duration_6, duration_7, duration_8, duration_9, duration_10, duration_11, duration_12, duration_13, duration_14,
    duration_15, duration_16, duration_17, duration_18, duration_19, duration_20)
SELECT %(hour)s::timestamptz, tenant_id, job_type,
       sum(created) AS created, sum(withdrawn) AS withdrawn, sum(dispatched) AS dispatched,
       sum(handed_back) AS handed_back, sum(messages_lost) AS messages_lost, sum(started) AS started,
       sum(ended_succeeded) AS ended_succeeded, sum(ended_failed) AS ended_failed,
       sum(ended_timed_out) AS ended_timed_out, sum(ended_lost) AS ended_lost, sum(ended_stale) AS ended_stale,
       sum(ended_cancelled) AS ended_cancelled, sum(retried) AS retried, sum(cancelled) AS cancelled,
       sum(replayed) AS replayed, sum(buried_exhausted) AS buried_exhausted,
       sum(buried_permanent) AS buried_permanent, sum(buried_poison) AS buried_poison,
       sum(buried_lost) AS buried_lost, sum(skipped_misfire) AS skipped_misfire,
       sum(skipped_coalesced) AS skipped_coalesced, sum(skipped_overlap) AS skipped_overlap,
       sum(skipped_collapsed) AS skipped_collapsed, sum(skipped_paused) AS skipped_paused,
       sum(skipped_frozen) AS skipped_frozen, sum(duplicates_prevented) AS duplicates_prevented,
       sum(lag_us) AS lag_us, sum(duration_us) AS duration_us, sum(lag_0) AS lag_0, sum(lag_1) AS lag_1,
       sum(lag_2) AS lag_2, sum(lag_3) AS lag_3, sum(lag_4) AS lag_4, sum(lag_5) AS lag_5, sum(lag_6) AS lag_6,
       sum(lag_7) AS lag_7, sum(lag_8) AS lag_8, sum(lag_9) AS lag_9, sum(lag_10) AS lag_10, sum(lag_11) AS lag_11,
       sum(lag_12) AS lag_12, sum(lag_13) AS lag_13, sum(lag_14) AS lag_14, sum(lag_15) AS lag_15,
       sum(lag_16) AS lag_16, sum(lag_17) AS lag_17, sum(lag_18) AS lag_18, sum(lag_19) AS lag_19,
       sum(lag_20) AS lag_20, sum(duration_0) AS duration_0, sum(duration_1) AS duration_1,
       sum(duration_2) AS duration_2, sum(duration_3) AS duration_3, sum(duration_4) AS duration_4,
       sum(duration_5) AS duration_5, sum(duration_6) AS duration_6, sum(duration_7) AS duration_7,
       sum(duration_8) AS duration_8, sum(duration_9) AS duration_9, sum(duration_10) AS duration_10,
       sum(duration_11) AS duration_11, sum(duration_12) AS duration_12, sum(duration_13) AS duration_13,
       sum(duration_14) AS duration_14, sum(duration_15) AS duration_15, sum(duration_16) AS duration_16,
       sum(duration_17) AS duration_17, sum(duration_18) AS duration_18, sum(duration_19) AS duration_19,
       sum(duration_20) AS duration_20
FROM jobs_activityminute
WHERE minute >= %(hour)s::timestamptz AND minute < %(hour)s::timestamptz + interval '1 hour'
GROUP BY tenant_id, job_type ORDER BY tenant_id, job_type
ON CONFLICT (hour, tenant_id, job_type) DO UPDATE SET
    created = excluded.created, withdrawn = excluded.withdrawn, dispatched = excluded.dispatched,
    handed_back = excluded.handed_back, messages_lost = excluded.messages_lost, started = excluded.started,
    ended_succeeded = excluded.ended_succeeded, ended_failed = excluded.ended_failed,
    ended_timed_out = excluded.ended_timed_out, ended_lost = excluded.ended_lost, ended_stale = excluded.ended_stale,
    ended_cancelled = excluded.ended_cancelled, retried = excluded.retried, cancelled = excluded.cancelled,
    replayed = excluded.replayed, buried_exhausted = excluded.buried_exhausted,
    buried_permanent = excluded.buried_permanent, buried_poison = excluded.buried_poison,
    buried_lost = excluded.buried_lost, skipped_misfire = excluded.skipped_misfire,
    skipped_coalesced = excluded.skipped_coalesced, skipped_overlap = excluded.skipped_overlap,
    skipped_collapsed = excluded.skipped_collapsed, skipped_paused = excluded.skipped_paused,
    skipped_frozen = excluded.skipped_frozen, duplicates_prevented = excluded.duplicates_prevented,
    lag_us = excluded.lag_us, duration_us = excluded.duration_us, lag_0 = excluded.lag_0, lag_1 = excluded.lag_1,
    lag_2 = excluded.lag_2, lag_3 = excluded.lag_3, lag_4 = excluded.lag_4, lag_5 = excluded.lag_5,
    lag_6 = excluded.lag_6, lag_7 = excluded.lag_7, lag_8 = excluded.lag_8, lag_9 = excluded.lag_9,
    lag_10 = excluded.lag_10, lag_11 = excluded.lag_11, lag_12 = excluded.lag_12, lag_13 = excluded.lag_13,
    lag_14 = excluded.lag_14, lag_15 = excluded.lag_15, lag_16 = excluded.lag_16, lag_17 = excluded.lag_17,
    lag_18 = excluded.lag_18, lag_19 = excluded.lag_19, lag_20 = excluded.lag_20, duration_0 = excluded.duration_0,
    duration_1 = excluded.duration_1, duration_2 = excluded.duration_2, duration_3 = excluded.duration_3,
    duration_4 = excluded.duration_4, duration_5 = excluded.duration_5, duration_6 = excluded.duration_6,
    duration_7 = excluded.duration_7, duration_8 = excluded.duration_8, duration_9 = excluded.duration_9,
    duration_10 = excluded.duration_10, duration_11 = excluded.duration_11, duration_12 = excluded.duration_12,
    duration_13 = excluded.duration_13, duration_14 = excluded.duration_14, duration_15 = excluded.duration_15,
    duration_16 = excluded.duration_16, duration_17 = excluded.duration_17, duration_18 = excluded.duration_18,
    duration_19 = excluded.duration_19, duration_20 = excluded.duration_20;

-- name: next_hour
-- The first hour that was not rolled up yet and has counts.
-- index: primary keys
-- returns: hour, whether it is_over (nothing adds to it any more); no row when there is none
SELECT date_trunc('hour', first.minute, 'UTC') AS hour,
       date_trunc('hour', first.minute, 'UTC') + interval '1 hour' + %(grace)s <= carillon_now() AS is_over
FROM (SELECT coalesce((SELECT hour + interval '1 hour' FROM jobs_activityhour WHERE hour > '2000-01-01Z'
                       ORDER BY hour DESC LIMIT 1),
                      '2000-01-01Z') AS since) rolled, LATERAL (
    SELECT minute FROM jobs_activityminute WHERE minute >= rolled.since ORDER BY minute LIMIT 1) first;

-- name: purge_minute
-- Drop the oldest minute's counts that no partition's end takes away: it is in the default partition.
-- locks: rows of a minute, lock_timeout
-- index: primary key
-- returns: minute
DELETE FROM jobs_activityminute WHERE minute = (
    SELECT minute FROM jobs_activityminute WHERE minute < %(before)s::timestamptz ORDER BY minute LIMIT 1)
RETURNING minute;

-- name: purge_hour
-- The same of counts by the hour.
-- locks: rows of an hour, lock_timeout
-- index: primary key
-- returns: hour
DELETE FROM jobs_activityhour WHERE hour = (
    SELECT hour FROM jobs_activityhour WHERE hour < %(before)s::timestamptz ORDER BY hour LIMIT 1)
RETURNING hour;

-- name: busiest
-- The tenants with most activity in this minute and the %(minutes)s before, and those that have series of their own, active or not. No tenant
-- whose slug is "other" is among them: it would be taken for all others.
-- index: primary keys
-- returns: tenant_id, count, named
WITH recent AS MATERIALIZED (
    SELECT tenant_id, sum(coalesce(created, 0) + coalesce(dispatched, 0) + coalesce(started, 0)) AS count
    FROM jobs_activityminute
    WHERE minute = ANY(ARRAY(SELECT date_trunc('minute', carillon_now(), 'UTC') - n * interval '1 minute'
                             FROM generate_series(0, %(minutes)s) n))
    GROUP BY tenant_id
), wanted AS (
    SELECT tenant_id FROM jobs_metrictenant
    UNION (SELECT tenant_id FROM recent ORDER BY count DESC, tenant_id LIMIT %(limit)s)
)
SELECT tenant_id, coalesce((SELECT recent.count FROM recent WHERE recent.tenant_id = wanted.tenant_id), 0)::bigint AS count,
       EXISTS (SELECT FROM jobs_metrictenant n WHERE n.tenant_id = wanted.tenant_id) AS named
FROM wanted WHERE (SELECT slug FROM tenants_tenant WHERE id = wanted.tenant_id) <> 'other';

-- name: name_tenants
-- Give tenants series of their own from now on; what they did before stays with all others'.
-- index: primary key
INSERT INTO jobs_metrictenant (tenant_id, named_at)
SELECT id, carillon_clock() FROM unnest(%(tenant_ids)s::bigint[]) AS id ORDER BY id
ON CONFLICT (tenant_id) DO NOTHING;

-- name: unname_tenants
-- End the series of tenants that have none of their own any more. What they count from now on is all others'.
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
