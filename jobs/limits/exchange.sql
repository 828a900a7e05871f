-- Exchange accounts with the named buckets, all at one moment. Purpose and arguments are as in exchange.lua. Returns
-- for each bucket: its name, tokens held, seconds until it is full.
-- locks: the rows of buckets that are written, in the order of their names, until the statement ends.
-- index: jobs_rate_pkey.
-- A bucket that is only asked about is not written. The row of a conflict is read after it is locked, so the count is
-- exact however many processes exchange at once.
WITH moment AS MATERIALIZED (
    SELECT extract(epoch FROM clock_timestamp())::float8 AS now
), asked AS MATERIALIZED (
    SELECT line.bucket, ARRAY[interval, burst, returned, spent, age, wanted] AS asked,
           returned > 0 OR spent > 0 OR wanted > 0 AS writes
    FROM unnest(%s::text[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[])
        AS line (bucket, interval, burst, returned, spent, age, wanted)
), debt AS MATERIALIZED (
    SELECT %s::float8 AS seconds
), written AS (
    INSERT INTO jobs_rate AS rate (bucket, full_at, granted, asked)
    SELECT bucket, told.full_at, told.granted, asked
    FROM asked, moment, debt, carillon_exchange(NULL, now, asked, debt.seconds) AS told
    WHERE writes
    ORDER BY bucket
    ON CONFLICT (bucket) DO UPDATE SET (full_at, granted) = (
        SELECT told.full_at, told.granted
        FROM moment, debt, carillon_exchange(rate.full_at, now, excluded.asked, debt.seconds) AS told
    )
    RETURNING bucket, granted, full_at
)
SELECT bucket, granted, full_at - now FROM written, moment
UNION ALL
SELECT asked.bucket, told.granted, told.full_at - now
FROM asked LEFT JOIN jobs_rate AS rate ON rate.bucket = asked.bucket, moment, debt,
     carillon_exchange(rate.full_at, now, asked.asked, debt.seconds) AS told
WHERE NOT writes
