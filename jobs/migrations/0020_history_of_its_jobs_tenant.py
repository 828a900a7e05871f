"""No version, range of skipped firings or catch-up is of another tenant than its job, whatever a statement may say."""

import django.db.models.deletion
from django.db import migrations, models

TABLES = ("jobversion", "skippedrange", "catchup")
KEY = """
ALTER TABLE jobs_{0} ADD CONSTRAINT {0}_of_its_jobs_tenant
    FOREIGN KEY (job_id, tenant_id) REFERENCES jobs_job (id, tenant_id)
"""


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0019_notices'),
    ]

    operations = [
        migrations.AlterField(
            model_name='catchup',
            name='job',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='catch_ups', to='jobs.job'),
        ),
        migrations.AlterField(
            model_name='jobversion',
            name='job',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='jobs.job'),
        ),
        migrations.AlterField(
            model_name='skippedrange',
            name='job',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='skipped_ranges', to='jobs.job'),
        ),
        *(
            migrations.RunSQL(KEY.format(name), f"ALTER TABLE jobs_{name} DROP CONSTRAINT {name}_of_its_jobs_tenant")
            for name in TABLES
        ),
    ]
