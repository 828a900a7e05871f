"""The audit trail tells where a secret may be sent."""

from django.db import migrations


def trigger(columns: str) -> str:
    return f"""
CREATE OR REPLACE TRIGGER jobs_trail_rows AFTER INSERT OR DELETE OR UPDATE OF {columns} ON tenants_secret
    FOR EACH ROW EXECUTE FUNCTION carillon_trail('secret', 'sealed', '');
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0029_answer_tally"), ("tenants", "0009_secret_hosts")]

    operations = [migrations.RunSQL(trigger("name, version, hosts"), trigger("name, version"))]
