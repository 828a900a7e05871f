"""Job types that tenants declare for their pull workers."""

import datetime
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0012_messages'),
        ('tenants', '0003_require_if_match'),
    ]

    operations = [
        migrations.CreateModel(
            name='PullType',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40)),
                ('job_type', models.CharField(editable=False, max_length=63, unique=True)),
                ('description', models.CharField(blank=True, max_length=500)),
                ('timeout', models.DurationField()),
                ('max_in_flight', models.PositiveIntegerField(blank=True, null=True)),
                ('payload_schema', models.JSONField(blank=True, null=True)),
                ('created_at', models.DateTimeField(editable=False)),
                ('updated_at', models.DateTimeField(editable=False)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'name'), name='pull_type_name_unique'), models.CheckConstraint(condition=models.Q(('timeout__gt', datetime.timedelta(0))), name='pull_type_timeout_positive'), models.CheckConstraint(condition=models.Q(('max_in_flight__isnull', True), ('max_in_flight__gte', 1), _connector='OR'), name='pull_type_max_in_flight_positive'), models.CheckConstraint(condition=models.Q(models.Q(('created_at__isnull', True), models.Q(('created_at__gte', datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), ('created_at__lte', datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), _connector='OR'), models.Q(('updated_at__isnull', True), models.Q(('updated_at__gte', datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), ('updated_at__lte', datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), _connector='OR')), name='pull_type_times_between_2000_and_2100')],
            },
        ),
    ]
