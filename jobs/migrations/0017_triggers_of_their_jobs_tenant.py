"""No trigger is of another tenant than its job, whatever a statement may say: one foreign key in the place of two."""

import django.db.models.deletion
from django.db import migrations, models

KEY = """
ALTER TABLE jobs_trigger ADD CONSTRAINT trigger_of_its_jobs_tenant
    FOREIGN KEY (job_id, tenant_id) REFERENCES jobs_job (id, tenant_id)
"""


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0016_phases'),
        ('tenants', '0003_require_if_match'),
    ]

    operations = [
        migrations.AlterField(
            model_name='trigger',
            name='job',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='triggers', to='jobs.job'),
        ),
        migrations.AlterField(
            model_name='trigger',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.UniqueConstraint(fields=('id', 'tenant'), name='job_and_its_tenant'),
        ),
        migrations.RunSQL(KEY, "ALTER TABLE jobs_trigger DROP CONSTRAINT trigger_of_its_jobs_tenant"),
    ]
