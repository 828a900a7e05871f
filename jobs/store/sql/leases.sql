-- name: take
-- Take up to %(most)s of the named leases that are free, expired or this holder's own, each under a new term: whoever
-- lets a lease expire, or lost touch with it, begins a new reign, because what it knew may be out of date.
-- Any of them by chance, so that beats that start together share; locked in one order, so that they never block each
-- other for good.
-- locks: the lease rows, for this statement only
-- returns: name, term, and whether the last holder left it without handing it over to other beats
WITH free AS MATERIALIZED (
    SELECT wanted.name, coalesce(lease.holder, 'nobody') AS last_holder
    FROM unnest(%(names)s::text[]) AS wanted(name) LEFT JOIN jobs_lease lease USING (name)
    WHERE lease.name IS NULL OR lease.expires_at <= carillon_clock() OR lease.holder = %(holder)s
    ORDER BY random()
    LIMIT %(most)s
), taken AS (
    INSERT INTO jobs_lease AS lease (name, holder, term, expires_at)
    SELECT name, %(holder)s, 1, carillon_clock() + %(duration)s FROM free ORDER BY name
    ON CONFLICT (name) DO UPDATE SET
        holder = excluded.holder,
        term = lease.term + 1,
        expires_at = carillon_clock() + %(duration)s
    WHERE lease.expires_at <= carillon_clock() OR lease.holder = excluded.holder
    RETURNING name, term
)
SELECT name, term, last_holder <> '' AS abandoned FROM taken JOIN free USING (name) ORDER BY name;

-- name: renew
-- Prolong exactly these reigns; an expired one is not revived.
-- locks: the lease rows, for this statement only
-- returns: name of each that goes on; what is missing is over
WITH mine AS MATERIALIZED (
    SELECT name FROM jobs_lease
    WHERE (name, term) IN (SELECT * FROM unnest(%(names)s::text[], %(terms)s::bigint[]))
      AND holder = %(holder)s AND expires_at > carillon_clock()
    ORDER BY name
    FOR NO KEY UPDATE
)
UPDATE jobs_lease SET expires_at = carillon_clock() + %(duration)s
WHERE name = ANY(ARRAY(SELECT name FROM mine))
RETURNING name;

-- name: release
-- End exactly these reigns at once, so that others start without waiting. With %(handed_over)s nobody is noted as the last
-- holder: it lives on and left nothing half done.
-- locks: the lease rows, for this statement only
WITH mine AS MATERIALIZED (
    SELECT name FROM jobs_lease
    WHERE (name, term) IN (SELECT * FROM unnest(%(names)s::text[], %(terms)s::bigint[]))
      AND holder = %(holder)s AND expires_at > carillon_clock()
    ORDER BY name
    FOR NO KEY UPDATE
)
UPDATE jobs_lease SET
    expires_at = carillon_clock(),
    holder = CASE WHEN %(handed_over)s THEN '' ELSE holder END
WHERE name = ANY(ARRAY(SELECT name FROM mine));

-- name: share
-- Say that this beat lives, by a lease of its own (%(presence)s) beside those of the shards (%(names)s), and divide the
-- shards among all beats that live: evenly, what is left over to those that hold more already, so that little moves.
-- locks: the beat's own row; rows of beats gone for an hour, SKIP LOCKED
-- returns: the share of this beat, the number of beats, and how many leases of another division into shards are alive
WITH announced AS (
    INSERT INTO jobs_lease (name, holder, term, expires_at)
    VALUES (%(presence)s, %(holder)s, 1, carillon_clock() + %(duration)s)
    ON CONFLICT (name) DO UPDATE SET expires_at = carillon_clock() + %(duration)s
), purged AS (
    DELETE FROM jobs_lease
    WHERE name = ANY(ARRAY(
        SELECT name FROM jobs_lease
        WHERE starts_with(name, 'beat/') AND name <> %(presence)s
          AND expires_at < carillon_clock() - interval '1 hour'
        FOR UPDATE SKIP LOCKED))
), alive AS MATERIALIZED (
    SELECT name, holder, starts_with(name, %(presences)s) AS present, name = ANY(%(names)s::text[]) AS shard
    FROM jobs_lease
    WHERE expires_at > carillon_clock() AND name <> %(presence)s
), beat AS (
    SELECT holder FROM alive WHERE present UNION ALL SELECT %(holder)s
), place AS (
    SELECT beat.holder, count(*) OVER () AS beats,
           row_number() OVER (
               ORDER BY (SELECT count(*) FROM alive WHERE shard AND alive.holder = beat.holder) DESC, beat.holder)
               AS nth
    FROM beat
)
SELECT cardinality(%(names)s::text[]) / beats + (nth <= cardinality(%(names)s::text[]) %% beats)::int AS share, beats,
       (SELECT count(*) FROM alive WHERE NOT present AND NOT shard) AS strangers
FROM place WHERE holder = %(holder)s;

-- name: depart
-- Say that this beat is going, so that the others divide its shards at once.
-- locks: the beat's own row, for this statement only
DELETE FROM jobs_lease WHERE name = %(presence)s AND holder = %(holder)s;
