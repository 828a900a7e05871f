"""Labels of jobs, what finds jobs by them, and names in an order that an index can search by prefix."""

from django.db import migrations, models

# By statement where rows come and go in bulk, by row where labels are edited or a job is deleted softly.
LABEL = """
CREATE FUNCTION carillon_label_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_OP
    WHEN 'TRUNCATE' THEN
        DELETE FROM jobs_joblabel;
    WHEN 'INSERT' THEN
        INSERT INTO jobs_joblabel (tenant_id, key, value, job_id)
        SELECT c.tenant_id, e.key, e.value, c.id FROM changed c, jsonb_each_text(c.labels) e
        WHERE c.deleted_at IS NULL AND c.labels <> '{}';
    WHEN 'DELETE' THEN
        DELETE FROM jobs_joblabel l USING changed c, jsonb_each_text(c.labels) e
        WHERE c.labels <> '{}'
          AND l.tenant_id = c.tenant_id AND l.key = e.key AND l.value = e.value AND l.job_id = c.id;
    ELSE
        DELETE FROM jobs_joblabel l USING jsonb_each_text(OLD.labels) e
        WHERE l.tenant_id = OLD.tenant_id AND l.key = e.key AND l.value = e.value AND l.job_id = OLD.id;
        INSERT INTO jobs_joblabel (tenant_id, key, value, job_id)
        SELECT NEW.tenant_id, e.key, e.value, NEW.id FROM jsonb_each_text(NEW.labels) e
        WHERE NEW.deleted_at IS NULL;
    END CASE;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_label_insert AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_label_jobs();
CREATE TRIGGER jobs_label_delete AFTER DELETE ON jobs_job REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_label_jobs();
CREATE TRIGGER jobs_label_update AFTER UPDATE OF labels, deleted_at ON jobs_job
    FOR EACH ROW WHEN (OLD.labels <> NEW.labels
                       OR NEW.labels <> '{}' AND (OLD.deleted_at IS NULL) <> (NEW.deleted_at IS NULL))
    EXECUTE FUNCTION carillon_label_jobs();
CREATE TRIGGER jobs_label_truncate AFTER TRUNCATE ON jobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION carillon_label_jobs();
"""
UNDO = """
DROP TRIGGER jobs_label_insert ON jobs_job;
DROP TRIGGER jobs_label_delete ON jobs_job;
DROP TRIGGER jobs_label_update ON jobs_job;
DROP TRIGGER jobs_label_truncate ON jobs_job;
DROP FUNCTION carillon_label_jobs();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0013_pull_types'),
        ('tenants', '0003_require_if_match'),
    ]

    operations = [
        migrations.CreateModel(
            name='JobLabel',
            fields=[
                ('pk', models.CompositePrimaryKey('tenant_id', 'key', 'value', 'job_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('tenant_id', models.BigIntegerField()),
                ('key', models.CharField(db_collation='C', max_length=63)),
                ('value', models.CharField(db_collation='C', max_length=63)),
                ('job_id', models.UUIDField()),
            ],
        ),
        migrations.AddField(
            model_name='job',
            name='labels',
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AlterField(
            model_name='job',
            name='name',
            field=models.CharField(db_collation='C', max_length=200),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('deleted_at__isnull', True), ('status__in', ('paused', 'completed', 'cancelled'))), fields=['tenant', 'status', '-id'], name='job_at_rest'),
        ),
        migrations.RunSQL(LABEL, UNDO),
    ]
