-- One lease, called leader: the beat that holds it leads. No beat waits for another's lock: a lease with a locked row
-- is reported as such, and the leader decides how to go on (jobs.engine.leader).

-- name: take
-- Take the lease under a new term if it is free, has been expired for %(idle)s, or is this holder's own. A holder that
-- let it expire, or lost touch with it, begins a new leadership, because its knowledge may be out of date.
-- locks: the lease row, SKIP LOCKED
-- returns: term (null: the row is locked), whether another holder had it before, and how long ago its lease ran out
-- (null: there was none); no row while another holds it
WITH free AS MATERIALIZED (
    SELECT lease.name IS NULL AS is_new, coalesce(lease.holder, 'nobody') AS last_holder,
           carillon_clock() - lease.expires_at AS free_for
    FROM (VALUES ('leader')) AS wanted(name) LEFT JOIN jobs_lease lease USING (name)
    WHERE lease.name IS NULL OR lease.expires_at <= carillon_clock() - %(idle)s::interval OR lease.holder = %(holder)s
), locked AS MATERIALIZED (
    SELECT name FROM jobs_lease
    WHERE name = 'leader' AND EXISTS (SELECT FROM free) AND (expires_at <= carillon_clock() OR holder = %(holder)s)
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE jobs_lease SET holder = %(holder)s, term = term + 1, expires_at = carillon_clock() + %(duration)s
    WHERE name = ANY(ARRAY(SELECT name FROM locked)) AND (expires_at <= carillon_clock() OR holder = %(holder)s)
    RETURNING term
), made AS (
    INSERT INTO jobs_lease (name, holder, term, expires_at)
    SELECT 'leader', %(holder)s, 1, carillon_clock() + %(duration)s FROM free WHERE is_new
    ON CONFLICT (name) DO NOTHING
    RETURNING term
), found AS (
    SELECT term FROM taken UNION ALL SELECT term FROM made UNION ALL
    SELECT NULL FROM free WHERE NOT is_new AND NOT EXISTS (SELECT FROM locked)
)
SELECT term, last_holder <> %(holder)s AS abandoned, free_for FROM found, free;

-- name: renew
-- Prolong exactly this leadership; an expired one is not revived.
-- locks: the lease row, SKIP LOCKED
-- returns: whether it could not be prolonged because its row is locked; no row: it is over
WITH mine AS MATERIALIZED (
    SELECT name FROM jobs_lease
    WHERE name = 'leader' AND term = %(term)s AND holder = %(holder)s AND expires_at > carillon_clock()
    FOR NO KEY UPDATE SKIP LOCKED
), renewed AS (
    UPDATE jobs_lease SET expires_at = carillon_clock() + %(duration)s
    WHERE name = ANY(ARRAY(SELECT name FROM mine))
    RETURNING name
)
SELECT false AS locked FROM renewed
UNION ALL
SELECT true FROM jobs_lease
WHERE name = 'leader' AND term = %(term)s AND holder = %(holder)s AND expires_at > carillon_clock()
  AND NOT EXISTS (SELECT FROM mine);

-- name: release
-- End exactly this leadership at once, so that another beat starts without waiting. A lease with a locked row expires
-- by itself.
-- locks: the lease row, SKIP LOCKED
UPDATE jobs_lease SET expires_at = carillon_clock()
WHERE name = ANY(ARRAY(
    SELECT name FROM jobs_lease
    WHERE name = 'leader' AND term = %(term)s AND holder = %(holder)s AND expires_at > carillon_clock()
    FOR NO KEY UPDATE SKIP LOCKED));
