"""The constraints of 0016 hold for what was there before, too; nobody waits for the look at it."""

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0016_bulk_runs")]
    operations = [
        ValidateConstraint("operation", "operation_verb_known"),
        ValidateConstraint("operation", "operation_pace_in_range"),
    ]
