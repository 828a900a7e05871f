"""Where messages lie while the broker is away."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0011_answers'),
    ]

    operations = [
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job_type', models.CharField(max_length=63)),
                ('items', models.JSONField()),
                ('created_at', models.DateTimeField()),
            ],
        ),
    ]
