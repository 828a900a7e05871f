"""Keys of the installation: they have no tenant, and ``operator`` is their only scope."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0009_secret_hosts")]

    operations = [
        migrations.AlterField(
            model_name="apikey",
            name="tenant",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="api_keys",
                to="tenants.tenant",
            ),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("scopes", ["operator"]), ("tenant__isnull", True)),
                    models.Q(
                        ("tenant__isnull", False),
                        models.Q(("scopes__contains", ["operator"]), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="apikey_operator_has_no_tenant",
            ),
        ),
    ]
