"""Which process announced a worker, so that two of one name are told apart."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0023_let_through")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="process",
            field=models.CharField(db_default="", default="", max_length=32),
        ),
    ]
