-- name: names
-- The living jobs of these tenants whose names begin with the prefix, at most ``limit``, each tenant's in the order of
-- names.
-- index: job_name_unique_among_living, once a tenant
-- returns: id, name, status, tenant_id
SELECT found.id, found.name, found.status, found.tenant_id
FROM unnest(%(tenant_ids)s::bigint[]) WITH ORDINALITY AS tenant(id, rank)
    CROSS JOIN LATERAL (
        SELECT j.id, j.name, j.status, j.tenant_id FROM jobs_job j
        WHERE j.tenant_id = tenant.id AND j.deleted_at IS NULL AND j.workflow_id IS NULL
          AND j.name >= %(prefix)s AND j.name < %(beyond)s
        ORDER BY j.tenant_id, j.name LIMIT %(limit)s) found
LIMIT %(limit)s;
