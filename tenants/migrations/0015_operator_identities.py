"""Who operators are to an identity provider."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0014_second_factor"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="OperatorIdentity",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("issuer", models.CharField(max_length=255)),
                (
                    "subject",
                    models.CharField(
                        help_text="The operator's subject at the identity provider: the claim sub, not a name.",
                        max_length=255,
                    ),
                ),
                (
                    "operator",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identity",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "single sign-on",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("issuer", "subject"), name="operator_identity_is_one_operators"
                    )
                ],
            },
        ),
    ]
