"""What passed while no rate limit could be asked, beside each process's clock."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0022_audit_trail")]

    operations = [
        migrations.AddField(
            model_name="clock",
            name="let_through",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
    ]
