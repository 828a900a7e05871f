"""What fires in the time to come, by tenant and quarter of an hour: small, and empty at first."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0055_overview'),
    ]

    operations = [
        migrations.CreateModel(
            name='KeptForecast',
            fields=[
                ('tenant_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('made_at', models.DateTimeField()),
                ('since', models.DateTimeField()),
                ('total', models.BigIntegerField()),
                ('jobs', models.BigIntegerField()),
                ('counts', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                ('peaks', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                ('peak_minutes', django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), size=None)),
            ],
            options={
                'db_table': 'jobs_forecast',
                'indexes': [models.Index(fields=['-total'], name='forecast_by_total')],
            },
        ),
    ]
