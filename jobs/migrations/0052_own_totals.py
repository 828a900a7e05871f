"""What processes tell of themselves in ``/metrics``: counts by name and labels."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0051_breakers'),
    ]

    operations = [
        migrations.CreateModel(
            name='OwnTotal',
            fields=[
                ('pk', models.CompositePrimaryKey('name', 'labels', 'kind', blank=True, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=63)),
                ('labels', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), size=None)),
                ('kind', models.CharField(max_length=16)),
                ('count', models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL("ALTER TABLE jobs_owntotal SET (fillfactor = 50);", migrations.RunSQL.noop),
    ]
