"""Secrets, and signing secrets sealed in place."""

import datetime
import django.core.validators
import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models


def seal_signing_secrets(apps, schema_editor):
    from tenants.vault.sealing import seal
    from tenants.vault.signing import place_of

    for tenant in apps.get_model("tenants", "Tenant").objects.filter(webhook_secret__startswith="whsec_"):
        tenant.webhook_secret = " ".join(seal(text, place_of(tenant.id)) for text in tenant.webhook_secret.split())
        tenant.save(update_fields=["webhook_secret"])


def open_signing_secrets(apps, schema_editor):
    from tenants.vault.signing import open_signing_secrets

    for tenant in apps.get_model("tenants", "Tenant").objects.filter(webhook_secret__startswith="v1."):
        tenant.webhook_secret = open_signing_secrets(tenant.id, tenant.webhook_secret)
        tenant.save(update_fields=["webhook_secret"])


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0004_all_events'),
    ]

    operations = [
        migrations.CreateModel(
            name='Secret',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\\Z', 'Use 1 to 100 letters, digits, underscores, dots and hyphens, a letter or digit first.')])),
                ('sealed', models.TextField(editable=False)),
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'ordering': ('name',),
            },
        ),
        migrations.AddField(
            model_name='tenant',
            name='webhook_secret_retires_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AlterField(
            model_name='tenant',
            name='webhook_secret',
            field=models.TextField(blank=True, default='', editable=False, help_text="Signs this tenant's webhooks (Standard Webhooks)."),
        ),
        migrations.AddConstraint(
            model_name='apikey',
            constraint=models.CheckConstraint(condition=models.Q(('expires_at__isnull', True), models.Q(('expires_at__gte', datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), ('expires_at__lte', datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), _connector='OR'), name='apikey_times_between_2000_and_2100'),
        ),
        migrations.AddConstraint(
            model_name='tenant',
            constraint=models.CheckConstraint(condition=models.Q(('webhook_secret_retires_at__isnull', True), models.Q(('webhook_secret_retires_at__gte', datetime.datetime(2000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)), ('webhook_secret_retires_at__lte', datetime.datetime(2100, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))), _connector='OR'), name='tenant_times_between_2000_and_2100'),
        ),
        migrations.AddField(
            model_name='secret',
            name='tenant',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='secrets', to='tenants.tenant'),
        ),
        migrations.AddConstraint(
            model_name='secret',
            constraint=models.UniqueConstraint(fields=('tenant', 'name'), name='secret_name_unique_in_tenant'),
        ),
        migrations.RunPython(seal_signing_secrets, open_signing_secrets, elidable=True),
    ]
