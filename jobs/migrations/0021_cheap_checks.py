"""The same rules for a trigger's row, in words that cost less: the server reads each CHECK anew in every statement.

As Django writes them they were more than half of what it took to change one row (``docs/adr/0019``): a list as an
ARRAY of casts instead of one constant, and eight times a pair of bounds instead of one.
"""

from django.db import migrations

_NAMES = (
    "trigger_state_known",
    "trigger_reason_fits_state",
    "trigger_priority_known",
    "trigger_parked_is_held",
    "trigger_running_is_leased",
    "trigger_queued_is_stamped",
    "trigger_times_between_2000_and_2100",
)
CHECKS = """
ALTER TABLE jobs_trigger
    ADD CONSTRAINT trigger_reason_fits_state CHECK (
        CASE WHEN state = ANY ('{pending,queued,running,retrying,succeeded}'::text[]) THEN reason = ''
             WHEN state = 'skipped'
             THEN reason = ANY ('{misfire,coalesced,overlap,collapsed,paused,frozen}'::text[])
             WHEN state = 'dead'
             THEN reason = ANY ('{exhausted,permanent,poison,lost}'::text[])
             WHEN state = 'cancelled'
             THEN reason = ANY ('{job_cancelled,superseded,requested,preempted}'::text[])
             ELSE false END),
    ADD CONSTRAINT trigger_state_is_stamped CHECK (
        CASE state WHEN 'queued' THEN queued_at IS NOT NULL
                   WHEN 'running' THEN lease_expires_at IS NOT NULL
                   ELSE true END),
    ADD CONSTRAINT trigger_priority_known CHECK (priority >= 0 AND priority <= 3),
    ADD CONSTRAINT trigger_parked_is_held CHECK (held OR NOT parked),
    -- least and greatest pass nulls over.
    ADD CONSTRAINT trigger_times_between_2000_and_2100 CHECK (
        least(scheduled_for, due_at, created_at, queued_at, started_at, finished_at, lease_expires_at, parked_until)
            >= '2000-01-01 00:00:00+00'::timestamptz AND
        greatest(scheduled_for, due_at, created_at, queued_at, started_at, finished_at, lease_expires_at, parked_until)
            <= '2100-01-01 00:00:00+00'::timestamptz)
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0020_history_of_its_jobs_tenant")]

    operations = [
        *(migrations.RemoveConstraint(model_name="trigger", name=name) for name in _NAMES),
        migrations.RunSQL(
            CHECKS,
            "ALTER TABLE jobs_trigger DROP CONSTRAINT trigger_reason_fits_state,"
            " DROP CONSTRAINT trigger_state_is_stamped, DROP CONSTRAINT trigger_priority_known,"
            " DROP CONSTRAINT trigger_parked_is_held, DROP CONSTRAINT trigger_times_between_2000_and_2100",
        ),
    ]
