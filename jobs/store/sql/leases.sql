-- No beat waits for another's lock: a lease with a locked row is reported as such, and the leader decides what follows
-- (jobs.engine.leader).

-- name: take
-- Take up to %(most)s of the named leases that are free, expired for %(idle)s or this holder's own, each under a new
-- term: a holder that let a lease expire, or lost touch with it, begins a new leadership, because its knowledge may be
-- out of date. Any of them by chance, so that beats that start together share.
-- locks: the lease rows, SKIP LOCKED
-- returns: name, term (null: the row is locked), and whether another holder left it without handing it over
WITH free AS MATERIALIZED (
    SELECT wanted.name, lease.name IS NULL AS is_new, coalesce(lease.holder, 'nobody') AS last_holder
    FROM unnest(%(names)s::text[]) AS wanted(name) LEFT JOIN jobs_lease lease USING (name)
    WHERE lease.name IS NULL OR lease.expires_at <= carillon_clock() - %(idle)s::interval OR lease.holder = %(holder)s
    ORDER BY random()
    LIMIT %(most)s
), locked AS MATERIALIZED (
    SELECT name FROM jobs_lease
    WHERE name IN (SELECT name FROM free) AND (expires_at <= carillon_clock() OR holder = %(holder)s)
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE jobs_lease SET holder = %(holder)s, term = term + 1, expires_at = carillon_clock() + %(duration)s
    WHERE name = ANY(ARRAY(SELECT name FROM locked)) AND (expires_at <= carillon_clock() OR holder = %(holder)s)
    RETURNING name, term
), made AS (
    INSERT INTO jobs_lease (name, holder, term, expires_at)
    SELECT name, %(holder)s, 1, carillon_clock() + %(duration)s FROM free WHERE is_new ORDER BY name
    ON CONFLICT (name) DO NOTHING
    RETURNING name, term
), found AS (
    SELECT * FROM taken UNION ALL SELECT * FROM made UNION ALL
    SELECT name, NULL FROM free WHERE NOT is_new AND name NOT IN (SELECT name FROM locked)
)
SELECT name, term, last_holder NOT IN ('', %(holder)s) AS abandoned FROM found JOIN free USING (name) ORDER BY name;

-- name: renew
-- Prolong exactly these leaderships; an expired one is not revived.
-- locks: the lease rows, SKIP LOCKED
-- returns: name of each that goes on, and whether it could not be prolonged because its row is locked; a missing one is
-- over
WITH mine AS MATERIALIZED (
    SELECT name FROM jobs_lease
    WHERE (name, term) IN (SELECT * FROM unnest(%(names)s::text[], %(terms)s::bigint[]))
      AND holder = %(holder)s AND expires_at > carillon_clock()
    FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
    UPDATE jobs_lease SET expires_at = carillon_clock() + %(duration)s
    WHERE name = ANY(ARRAY(SELECT name FROM mine))
    RETURNING name
)
SELECT name, false AS locked FROM renewed
UNION ALL
SELECT name, true FROM jobs_lease
WHERE (name, term) IN (SELECT * FROM unnest(%(names)s::text[], %(terms)s::bigint[]))
  AND holder = %(holder)s AND expires_at > carillon_clock() AND name NOT IN (SELECT name FROM mine);

-- name: release
-- End exactly these leaderships at once, so that others start without waiting. With %(handed_over)s no last holder is
-- noted: it lives on and left nothing half done. A lease with a locked row expires by itself.
-- locks: the lease rows, SKIP LOCKED
WITH mine AS MATERIALIZED (
    SELECT name FROM jobs_lease
    WHERE (name, term) IN (SELECT * FROM unnest(%(names)s::text[], %(terms)s::bigint[]))
      AND holder = %(holder)s AND expires_at > carillon_clock()
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE jobs_lease SET
    expires_at = carillon_clock(),
    holder = CASE WHEN %(handed_over)s THEN '' ELSE holder END
WHERE name = ANY(ARRAY(SELECT name FROM mine));

-- name: share
-- Say that this beat lives, by a lease of its own (%(presence)s) beside those of the shards (%(names)s), and divide the
-- shards among all beats that live: evenly, what is left over to those that hold more already, so that little moves.
-- locks: the beat's own row and those of beats gone for an hour, SKIP LOCKED
-- returns: the share of this beat, the number of beats, and how many leases of another division into shards are alive
WITH announced AS (
    INSERT INTO jobs_lease (name, holder, term, expires_at)
    SELECT %(presence)s, %(holder)s, 1, carillon_clock() + %(duration)s
    WHERE NOT EXISTS (SELECT FROM jobs_lease WHERE name = %(presence)s)
    ON CONFLICT (name) DO NOTHING
), still_there AS (
    UPDATE jobs_lease SET expires_at = carillon_clock() + %(duration)s
    WHERE name = ANY(ARRAY(SELECT name FROM jobs_lease WHERE name = %(presence)s FOR NO KEY UPDATE SKIP LOCKED))
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
-- locks: the beat's own row, SKIP LOCKED
DELETE FROM jobs_lease
WHERE name = ANY(ARRAY(
    SELECT name FROM jobs_lease WHERE name = %(presence)s AND holder = %(holder)s FOR UPDATE SKIP LOCKED));
