"""How far the clocks of processes are from the database's, for people to see."""

import datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0009_job_tally'),
    ]

    operations = [
        migrations.CreateModel(
            name='Clock',
            fields=[
                ('name', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('offset_seconds', models.FloatField()),
                ('within_seconds', models.FloatField()),
                ('measured_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('measured_at__isnull', True), models.Q(('measured_at__gte', datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), ('measured_at__lte', datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), _connector='OR'), name='clock_times_between_2000_and_2100')],
            },
        ),
    ]
