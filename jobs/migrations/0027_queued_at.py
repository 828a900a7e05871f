"""What was queued a moment ago is found by its time, past whatever an old snapshot keeps."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0026_zone_rules"),
        ('tenants', '0007_key_rates'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='trigger',
            index=models.Index(condition=models.Q(('phase', 'in_flight')), fields=['queued_at'], name='trigger_queued_at'),
        ),
    ]
