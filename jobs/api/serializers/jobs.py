"""Jobs and their schedules: as they are written, as they are read, and the firings to come."""

from rest_framework import serializers

from jobs.actions.definition import ACCEPTED
from jobs.actions.notices import ON
from jobs.api.serializers.shared import Shape, words
from jobs.core.backoff import Backoff, Jitter
from jobs.core.policies import CronDialect, DstPolicy, Priority
from jobs.core.schedule import ScheduleType
from jobs.core.states import JobStatus

PRIORITIES = [priority.label for priority in Priority]


class ScheduleSerializer(Shape):
    type = words(ScheduleType)
    cron = serializers.CharField(required=False, max_length=100, help_text="cron: five fields, or a macro")
    cron_dialect = words(
        CronDialect, required=False, help_text="cron: quartz has six fields, seconds first, 1 = Sunday"
    )
    timezone = serializers.CharField(
        required=False, max_length=64, help_text="cron: IANA name; UTC by default"
    )
    dst_policy = words(DstPolicy, required=False, help_text="cron: where clocks change; vixie by default")
    every_seconds = serializers.FloatField(required=False, min_value=1, help_text="interval")
    run_at = serializers.DateTimeField(required=False, help_text="once")
    starts_at = serializers.DateTimeField(required=False, allow_null=True)
    ends_at = serializers.DateTimeField(required=False, allow_null=True)
    jitter_seconds = serializers.FloatField(required=False, min_value=0)


class RetryPolicySerializer(Shape):
    max_attempts = serializers.IntegerField(required=False, min_value=1, max_value=100)
    backoff = words(Backoff, required=False)
    initial_delay_seconds = serializers.FloatField(required=False)
    factor = serializers.FloatField(required=False)
    max_delay_seconds = serializers.FloatField(required=False)
    delays_seconds = serializers.ListField(child=serializers.FloatField(), required=False)
    jitter = words(Jitter, required=False)
    max_elapsed_seconds = serializers.FloatField(required=False)


class NotifySerializer(Shape):
    on = serializers.ListField(child=words(ON), help_text="failed: an attempt failed and is tried again.")
    url = serializers.CharField(required=False, max_length=2048, help_text="Gets a signed webhook.")
    email = serializers.EmailField(required=False, help_text="Where the installation sends e-mail.")


class DefinitionSerializer(Shape):
    """A job as it is written."""

    name = serializers.CharField(
        max_length=200, required=False, help_text="Optional for once and immediate; unique among your jobs."
    )
    labels = serializers.DictField(
        child=serializers.CharField(max_length=63),
        required=False,
        help_text="Up to 32 keys and values of 1 to 63 letters, digits, _ . / and -; lists are filtered by them.",
    )
    job_type = serializers.CharField(max_length=63, help_text="One of GET /job-types.")
    schedule = ScheduleSerializer()
    payload = serializers.DictField(required=False, help_text="As the job type's schema demands.")
    priority = words(PRIORITIES, required=False)
    timeout_seconds = serializers.FloatField(
        required=False, help_text="Of one attempt; the job type's by default."
    )
    retry_policy = RetryPolicySerializer(required=False)
    overlap_policy = words(ACCEPTED["overlap_policy"][1], required=False)
    max_concurrent = serializers.IntegerField(required=False, min_value=1)
    concurrency_key = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=200,
        help_text="max_concurrent then bounds all of your jobs with this key together.",
    )
    misfire_policy = words(ACCEPTED["misfire_policy"][1], required=False)
    misfire_grace_seconds = serializers.FloatField(required=False)
    catchup_window_seconds = serializers.FloatField(required=False)
    max_catchup = serializers.IntegerField(
        required=False, min_value=1, max_value=10_000, help_text="backfill: the most missed firings that run"
    )
    delivery = words(ACCEPTED["delivery"][1], required=False)
    notify = NotifySerializer(required=False, allow_null=True, help_text="The tenant's by default.")
    pause_after_failures = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=100,
        help_text="Pause the job once so many of its firings in a row died.",
    )


class ChangesSerializer(DefinitionSerializer):
    """Any part of a definition (JSON merge patch)."""

    job_type = serializers.CharField(max_length=63, required=False)
    schedule = ScheduleSerializer(required=False)


class ReplacementSerializer(DefinitionSerializer):
    """The whole of a definition; what is left out goes back to its default. The path holds the name."""

    name = serializers.CharField(max_length=200, required=False, help_text="As in the path, or left out.")


class ClockChangeSerializer(Shape):
    at = serializers.DateTimeField(help_text="When it fires, or would have.")
    local = serializers.DateTimeField(help_text="The same instant in the schedule's time zone.")
    note = serializers.CharField()


class JobSerializer(DefinitionSerializer):
    """A job as it is read; rendered by ``jobs.actions.definition.representation``."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    payload = serializers.DictField()
    retry_policy = RetryPolicySerializer()
    concurrency_key = serializers.CharField(allow_blank=True)
    status = words(JobStatus)
    status_reason = serializers.CharField(allow_blank=True)
    version = serializers.IntegerField()
    next_fire_at = serializers.DateTimeField(
        allow_null=True, help_text="The next firing; null when none is ahead or the job is not active."
    )
    clock_change = ClockChangeSerializer(
        allow_null=True,
        help_text="The next firing that a change of clocks moves, doubles or prevents, within 30 days.",
    )
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class StatusSerializer(Shape):
    status = words(("active", "paused", "cancelled"))


class RunSerializer(Shape):
    payload = serializers.DictField(
        required=False,
        help_text="In place of the job's, for this trigger alone; as the job type's schema demands.",
    )


class PreviewRequestSerializer(Shape):
    schedule = ScheduleSerializer()
    after = serializers.DateTimeField(required=False, help_text="Now by default.")
    count = serializers.IntegerField(required=False, min_value=1, max_value=1000)


class FiringSerializer(Shape):
    at = serializers.DateTimeField()
    local = serializers.DateTimeField(help_text="The same instant in the schedule's time zone.")
    wall = serializers.CharField(help_text="The wall-clock time the schedule named, without an offset.")
    note = serializers.CharField(allow_null=True, help_text="What a change of clocks has to do with it.")


class PreviewSerializer(Shape):
    description = serializers.CharField(help_text="The schedule in words.")
    tzdata = serializers.CharField(help_text="The release of the time zone database in use, such as 2026a.")
    firings = FiringSerializer(many=True)
