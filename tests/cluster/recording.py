"""A handler that keeps a list of its own: each start at once, and one effect a firing by ``ctx.once``.

For workers alone: a test that imports this registers the type in its own process.
"""

import time

from django.db import connection, transaction

from jobs.handlers import Context, job_type


@job_type("recording", batch_size=50)
def record(ctx: Context, payload: dict) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO started VALUES (%s, %s)", [ctx.trigger_id, ctx.fence])
        time.sleep(payload.get("holds_seconds", 0))
        with transaction.atomic():
            if ctx.once("made"):
                cursor.execute("INSERT INTO made VALUES (%s, %s)", [ctx.trigger_id, ctx.attempt_number])
    if payload.get("fails_first") and ctx.attempt_number == 1:
        raise RuntimeError("deliberate")
