-- How far the clocks of processes are from this database's clock. A small table for people to read: no decision depends
-- on it.

-- name: compare
-- Tell the time, and store the values that a process found when it last asked. Forget processes that have been silent
-- for a day.
-- locks: the process's own row and those of processes gone for a day, SKIP LOCKED
-- index: primary key
-- returns: at
WITH gone AS (
    DELETE FROM jobs_clock
    WHERE name = ANY(ARRAY(
        SELECT name FROM jobs_clock WHERE measured_at < carillon_clock() - interval '1 day' AND name <> %(name)s
        FOR UPDATE SKIP LOCKED))
), known AS (
    UPDATE jobs_clock SET
        offset_seconds = %(offset)s, within_seconds = %(within)s, rate_limit_bypassed = %(rate_limit_bypassed)s,
        version = %(version)s, measured_at = carillon_clock()
    WHERE %(offset)s::float IS NOT NULL
      AND name = ANY(ARRAY(SELECT name FROM jobs_clock WHERE name = %(name)s FOR NO KEY UPDATE SKIP LOCKED))
), noted AS (
    INSERT INTO jobs_clock (name, offset_seconds, within_seconds, rate_limit_bypassed, version, measured_at)
    SELECT %(name)s, %(offset)s, %(within)s, %(rate_limit_bypassed)s, %(version)s, carillon_clock()
    WHERE %(offset)s::float IS NOT NULL AND NOT EXISTS (SELECT FROM jobs_clock WHERE name = %(name)s)
    ON CONFLICT (name) DO NOTHING
)
SELECT carillon_clock() AS at;

-- name: present
-- The processes whose clocks were measured recently, those that are furthest off first.
-- returns: name, offset_seconds, within_seconds, rate_limit_bypassed, version, measured_at
SELECT name, offset_seconds, within_seconds, rate_limit_bypassed, version, measured_at FROM jobs_clock
WHERE measured_at > carillon_now() - %(silence)s::interval
ORDER BY abs(offset_seconds) DESC, name
LIMIT %(limit)s;
