"""What waits until its target lets it go, by target and tenant. The index is made concurrently: claims go on meanwhile."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0047_target_rules")]

    operations = [
        AddIndexConcurrently(
            "trigger",
            models.Index(
                condition=models.Q(("parked", True), models.Q(("parked_for", ""), _negated=True)),
                fields=["parked_for", "tenant", "due_at"],
                name="trigger_parked_for",
            ),
        ),
    ]
