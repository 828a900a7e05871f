"""Who is told of a tenant's jobs."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0005_vault'),
    ]

    operations = [
        migrations.AddField(
            model_name='tenant',
            name='notify',
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='tenant',
            name='watched',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
    ]
