"""Who is told of what, and how far the notifier has come."""

import jobs.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0018_operations'),
    ]

    operations = [
        migrations.CreateModel(
            name='FeedReader',
            fields=[
                ('name', models.CharField(max_length=63, primary_key=True, serialize=False)),
                ('xid', jobs.models.fields.TransactionId(editable=False)),
                ('event_id', models.BigIntegerField()),
            ],
        ),
        migrations.AddField(
            model_name='job',
            name='notify',
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='pause_after_failures',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='watched',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
    ]
