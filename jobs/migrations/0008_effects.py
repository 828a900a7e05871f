"""What handlers record of effects that are to happen once."""

import datetime
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0007_suspects'),
    ]

    operations = [
        migrations.CreateModel(
            name='Effect',
            fields=[
                ('pk', models.CompositePrimaryKey('trigger_id', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('trigger_id', models.UUIDField()),
                ('key', models.CharField(max_length=200)),
                ('fence', models.PositiveIntegerField()),
                ('recorded_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('duplicates', models.PositiveIntegerField(db_default=0, default=0)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('recorded_at__isnull', True), models.Q(('recorded_at__gte', datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), ('recorded_at__lte', datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), _connector='OR'), name='effect_times_in_range')],
            },
        ),
    ]
