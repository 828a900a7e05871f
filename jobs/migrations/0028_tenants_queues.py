"""Queues and job types on tenants: the audit trail tells of them, and what jobs write to today goes on.

A tenant is granted each queue by name that a living job of it names beyond ``tenant.<slug>.…``: look them over.
"""

from django.db import migrations

WATCHED = (
    "slug, name, status, weight, max_in_flight, max_jobs, max_payload_bytes, rate_per_second, max_backfill, rate_burst, "
    "require_if_match, all_events, notify, webhook_secret"
)


def trigger(columns: str) -> str:
    return f"""
CREATE OR REPLACE TRIGGER jobs_trail_update AFTER UPDATE OF {columns} ON tenants_tenant
    FOR EACH ROW WHEN (NOT (OLD.webhook_secret = '' AND NEW.webhook_secret <> ''))
    EXECUTE FUNCTION carillon_trail('tenant', 'watched webhook_secret_retires_at', 'notify webhook_secret');
"""


GRANT = """
UPDATE tenants_tenant t SET queues = used.queues
FROM (
    SELECT tenant_id, (array_agg(DISTINCT queue ORDER BY queue))[:100]::varchar[] AS queues
    FROM (
        SELECT tenant_id, coalesce(payload ->> 'queue', CASE job_type WHEN 'celery_task' THEN 'celery' END) AS queue
        FROM jobs_job WHERE job_type IN ('message', 'celery_task') AND deleted_at IS NULL
    ) named
    JOIN tenants_tenant own ON own.id = tenant_id
    WHERE queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}$' AND NOT starts_with(queue, 'tenant.' || own.slug || '.')
    GROUP BY tenant_id
) used
WHERE used.tenant_id = t.id;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0027_queued_at"), ("tenants", "0008_queues_and_types")]

    operations = [
        migrations.RunSQL(trigger(WATCHED + ", queues, disabled_types"), trigger(WATCHED)),
        migrations.RunSQL(GRANT, migrations.RunSQL.noop),
    ]
