"""Second factors of operators, and by what a session's operator signed in."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0013_operator_sessions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            "operatorsession",
            "signed_in_by",
            models.CharField(db_default="password", default="password", max_length=40),
        ),
        migrations.CreateModel(
            name="SecondFactor",
            fields=[
                (
                    "operator",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="second_factor",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("sealed", models.TextField(editable=False)),
                ("used_step", models.BigIntegerField(editable=False)),
                (
                    "recovery",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64), default=list, editable=False, size=None
                    ),
                ),
                ("set_up_at", models.DateTimeField(editable=False)),
            ],
        ),
    ]
