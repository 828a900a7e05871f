"""Whether a tenant's calls of a host stop once they keep failing. The jobs' migration has the audit trail tell of it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0010_operator_keys")]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="circuit_breaker",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Stop calling a host once calls of it keep failing, and try with one call whether it is back. What "
                "falls due meanwhile waits, without an attempt.",
            ),
        ),
    ]
