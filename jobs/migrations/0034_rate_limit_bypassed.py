"""The clocks' ``let_through`` takes the name of its metric."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobs", "0033_one_leader")]
    operations = [migrations.RenameField("clock", "let_through", "rate_limit_bypassed")]
