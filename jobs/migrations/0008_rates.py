"""Rate limits where there is no Redis (docs/adr/0030): the rows, and what one exchange makes of a row."""

import django.contrib.postgres.fields
from django.db import migrations, models

# Each row is written again and again: with room left on its page that touches no index.
_ROOM = """
ALTER TABLE jobs_rate SET UNLOGGED;
ALTER TABLE jobs_rate SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
"""
# As exchange.lua has it. `stored`: when the bucket is full again, NULL for one that nobody knows. `asked`: seconds that a
# token takes, burst, held tokens given back, tokens spent, seconds since the first of them was, tokens to hold. `debt`:
# seconds of overspending that are kept. A time beyond what can be spent is that of another rate, or of a clock that stepped
# back: it counts as an empty bucket, which fills from now on. NaN is greater than all numbers.
_EXCHANGE = """
CREATE FUNCTION carillon_exchange(stored float8, now float8, asked float8[], debt float8)
RETURNS TABLE (full_at float8, granted integer) LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1 AS $$
    SELECT told.full_at + held.tokens * asked[1], held.tokens::integer
    FROM (SELECT asked[1] * asked[2] AS span) AS burst,
    LATERAL (SELECT now + span + least(span, debt) AS latest) AS bounds,
    LATERAL (
        SELECT CASE WHEN stored IS NULL THEN now WHEN stored > latest THEN now + span ELSE stored END
               - asked[3] * asked[1] AS full_at
    ) AS returned,
    LATERAL (
        SELECT CASE WHEN asked[4] > 0 THEN greatest(returned.full_at, now - asked[5]) ELSE returned.full_at END
               + asked[4] * asked[1] AS full_at
    ) AS spent,
    LATERAL (SELECT greatest(least(spent.full_at, latest), now) AS full_at) AS told,
    LATERAL (
        SELECT greatest(0, least(asked[6], floor((now + span - told.full_at) / asked[1] + 0.000001))) AS tokens
    ) AS held
$$
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0007_operators_on_the_trail")]

    operations = [
        migrations.CreateModel(
            name="Rate",
            fields=[
                ("bucket", models.TextField(primary_key=True, serialize=False)),
                ("full_at", models.FloatField()),
                ("granted", models.IntegerField()),
                ("asked", django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=None)),
            ],
        ),
        migrations.RunSQL(_ROOM, migrations.RunSQL.noop),
        migrations.RunSQL(_EXCHANGE, "DROP FUNCTION carillon_exchange"),
    ]
