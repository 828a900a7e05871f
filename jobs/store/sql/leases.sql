-- name: take
-- Take the lease when it is free or expired, or keep it when it is ours. A new reign gets a new term.
-- A holder that lets its lease expire begins a new reign too: what it knew may be out of date.
-- locks: the lease row, for this statement only
-- returns: term, or no row when another holds it
INSERT INTO jobs_lease AS lease (name, holder, term, expires_at)
VALUES (%(name)s, %(holder)s, 1, carillon_clock() + %(duration)s)
ON CONFLICT (name) DO UPDATE SET
    holder = excluded.holder,
    term = lease.term + 1,
    expires_at = carillon_clock() + %(duration)s
WHERE lease.expires_at <= carillon_clock() OR lease.holder = excluded.holder
RETURNING term;

-- name: renew
-- Prolong exactly this reign; an expired one is not revived.
-- locks: the lease row, for this statement only
-- returns: term, or no row when the reign is over
UPDATE jobs_lease SET expires_at = carillon_clock() + %(duration)s
WHERE name = %(name)s AND holder = %(holder)s AND term = %(term)s AND expires_at > carillon_clock()
RETURNING term;

-- name: release
-- End exactly this reign at once, so that a standby starts without waiting.
-- locks: the lease row, for this statement only
UPDATE jobs_lease SET expires_at = carillon_clock()
WHERE name = %(name)s AND holder = %(holder)s AND term = %(term)s AND expires_at > carillon_clock();
