-- Remove buckets that are full, and so say nothing. Returns nothing.
-- locks: SKIP LOCKED. An exchange that finds a row removed makes it again, full as it was.
-- The table is small, as each row is of a bucket that was used lately. So it is read whole.
DELETE FROM jobs_rate WHERE bucket = ANY (ARRAY(
    SELECT bucket FROM jobs_rate
    WHERE full_at < extract(epoch FROM clock_timestamp())::float8 - 1
    LIMIT %s FOR UPDATE SKIP LOCKED
))
