"""The shapes of the API (DESIGN §10), for OpenAPI and for rendering triggers and attempts.

What is accepted is decided by ``jobs.actions`` alone: a serializer of a request here describes, it never checks.
"""

from typing import Any

from rest_framework import serializers

from jobs.actions.definition import ACCEPTED
from jobs.actions.schedules import seconds
from jobs.core.backoff import Backoff, Jitter
from jobs.core.policies import CronDialect, DstPolicy, Priority
from jobs.core.schedule import ScheduleType
from jobs.core.states import JobStatus
from jobs.models import Attempt, SkippedRange, Trigger

PRIORITIES = [priority.label for priority in Priority]


class Shape(serializers.Serializer[Any]):
    """A JSON object without a table."""


def _words(values: Any, **options: Any) -> serializers.ChoiceField:
    return serializers.ChoiceField(choices=[(str(value), str(value)) for value in values], **options)


class ScheduleSerializer(Shape):
    type = _words(ScheduleType)
    cron = serializers.CharField(required=False, max_length=100, help_text="cron: five fields, or a macro")
    cron_dialect = _words(
        CronDialect, required=False, help_text="cron: quartz has six fields, seconds first, 1 = Sunday"
    )
    timezone = serializers.CharField(
        required=False, max_length=64, help_text="cron: IANA name; UTC by default"
    )
    dst_policy = _words(DstPolicy, required=False, help_text="cron: where clocks change; vixie by default")
    every_seconds = serializers.FloatField(required=False, min_value=1, help_text="interval")
    run_at = serializers.DateTimeField(required=False, help_text="once")
    starts_at = serializers.DateTimeField(required=False, allow_null=True)
    ends_at = serializers.DateTimeField(required=False, allow_null=True)
    jitter_seconds = serializers.FloatField(required=False, min_value=0)


class RetryPolicySerializer(Shape):
    max_attempts = serializers.IntegerField(required=False, min_value=1, max_value=100)
    backoff = _words(Backoff, required=False)
    initial_delay_seconds = serializers.FloatField(required=False)
    factor = serializers.FloatField(required=False)
    max_delay_seconds = serializers.FloatField(required=False)
    delays_seconds = serializers.ListField(child=serializers.FloatField(), required=False)
    jitter = _words(Jitter, required=False)
    max_elapsed_seconds = serializers.FloatField(required=False)


class DefinitionSerializer(Shape):
    """A job as it is written."""

    name = serializers.CharField(
        max_length=200, required=False, help_text="Optional for once and immediate; unique among your jobs."
    )
    job_type = serializers.CharField(max_length=63, help_text="One of GET /job-types.")
    schedule = ScheduleSerializer()
    payload = serializers.DictField(required=False, help_text="As the job type's schema demands.")
    priority = _words(PRIORITIES, required=False)
    timeout_seconds = serializers.FloatField(
        required=False, help_text="Of one attempt; the job type's by default."
    )
    retry_policy = RetryPolicySerializer(required=False)
    overlap_policy = _words(ACCEPTED["overlap_policy"][1], required=False)
    max_concurrent = serializers.IntegerField(required=False, min_value=1)
    misfire_policy = _words(ACCEPTED["misfire_policy"][1], required=False)
    misfire_grace_seconds = serializers.FloatField(required=False)
    catchup_window_seconds = serializers.FloatField(required=False)
    max_catchup = serializers.IntegerField(
        required=False, min_value=1, max_value=10_000, help_text="backfill: the most missed firings that run"
    )
    delivery = _words(ACCEPTED["delivery"][1], required=False)


class ChangesSerializer(DefinitionSerializer):
    """Any part of a definition (JSON merge patch)."""

    job_type = serializers.CharField(max_length=63, required=False)
    schedule = ScheduleSerializer(required=False)


class ClockChangeSerializer(Shape):
    at = serializers.DateTimeField(help_text="When it fires, or would have.")
    local = serializers.DateTimeField(help_text="The same instant in the schedule's time zone.")
    note = serializers.CharField()


class JobSerializer(DefinitionSerializer):
    """A job as it is read; rendered by ``jobs.actions.definition.representation``."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    payload = serializers.DictField()
    retry_policy = RetryPolicySerializer()
    concurrency_key = serializers.CharField(allow_blank=True)
    status = _words(JobStatus)
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
    status = _words(("active", "paused", "cancelled"))


class TriggerSerializer(serializers.ModelSerializer[Trigger]):
    job_id = serializers.UUIDField()
    priority = serializers.SerializerMethodField()

    class Meta:
        model = Trigger
        fields = (
            "id", "job_id", "job_type", "job_version", "origin", "scheduled_for", "due_at", "state", "reason",
            "priority", "payload", "idempotency_key", "fence", "attempt_count", "crash_count", "replay_count", "worker",
            "cancel_requested", "progress", "checkpoint", "result", "created_at", "queued_at", "started_at",
            "finished_at",
        )  # fmt: skip
        read_only_fields = fields

    def get_priority(self, trigger: Trigger) -> str:
        return Priority(trigger.priority).label


class SkippedRangeSerializer(serializers.ModelSerializer[SkippedRange]):
    """Described to OpenAPI by ``jobs.api.pagination``, as a part of a page."""

    class Meta:
        model = SkippedRange
        fields = ("from_at", "until_at", "count", "reason")
        read_only_fields = fields


class RunSerializer(Shape):
    payload = serializers.DictField(
        required=False,
        help_text="In place of the job's, for this trigger alone; as the job type's schema demands.",
    )


class BackfillRequestSerializer(Shape):
    start = serializers.DateTimeField(help_text="The first instant that may run.")
    end = serializers.DateTimeField(help_text="The last one; not in the future.")
    dry_run = serializers.BooleanField(required=False, help_text="Only count; nothing is run.")


class ExtentSerializer(Shape):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    count = serializers.IntegerField(help_text="Firings from start to end.")
    existing = serializers.IntegerField(help_text="Those that have a trigger already; they are left alone.")


class BackfillSerializer(Shape):
    """A backfill; rendered by ``jobs.actions.backfill.representation``."""

    id = serializers.UUIDField()
    job_id = serializers.UUIDField()
    job_version = serializers.IntegerField(help_text="Whose schedule names the firings.")
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    count = serializers.IntegerField(help_text="Firings from start to end.")
    materialized = serializers.IntegerField(help_text="Those that have got their trigger so far.")
    cursor = serializers.DateTimeField(allow_null=True, help_text="Every firing up to here has its trigger.")
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(
        allow_null=True, help_text="When the last had its trigger, or an edit or cancel ended it early."
    )


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    trigger_id = serializers.UUIDField()
    duration_seconds = serializers.SerializerMethodField()

    class Meta:
        model = Attempt
        fields = (
            "id", "trigger_id", "job_id", "number", "fence", "worker", "celery_task_id", "state", "started_at",
            "finished_at", "duration_seconds", "error_code", "error_class", "error_message", "traceback",
            "http_status", "response_excerpt",
        )  # fmt: skip
        read_only_fields = fields

    def get_duration_seconds(self, attempt: Attempt) -> float | None:
        return None if attempt.duration is None else seconds(attempt.duration)


class DeadLetterFilterSerializer(Shape):
    job = serializers.UUIDField(required=False)
    job_type = serializers.CharField(required=False)
    reason = serializers.CharField(required=False)
    scheduled_for_after = serializers.DateTimeField(required=False)
    scheduled_for_before = serializers.DateTimeField(required=False)


class ReplaySerializer(Shape):
    """Either ``ids``, or ``filter`` (``{}`` for all of them)."""

    ids = serializers.ListField(child=serializers.UUIDField(), required=False, max_length=1000)
    filter = DeadLetterFilterSerializer(required=False)


class ReplayedSerializer(Shape):
    replayed = serializers.IntegerField()


class LimitsSerializer(Shape):
    weight = serializers.IntegerField()
    max_in_flight = serializers.IntegerField()
    max_jobs = serializers.IntegerField()
    max_payload_bytes = serializers.IntegerField()
    rate_per_second = serializers.IntegerField(allow_null=True)
    rate_burst = serializers.IntegerField(allow_null=True)


class UsageSerializer(Shape):
    jobs = serializers.IntegerField(help_text="living jobs")
    in_flight = serializers.IntegerField(help_text="triggers queued or running")


class TenantSerializer(Shape):
    slug = serializers.CharField()
    name = serializers.CharField()
    status = _words(("active", "suspended", "frozen"))
    limits = LimitsSerializer()
    usage = UsageSerializer()


class JobTypeSerializer(Shape):
    name = serializers.CharField()
    description = serializers.CharField()
    timeout_seconds = serializers.FloatField()
    batch_size = serializers.IntegerField()
    max_in_flight = serializers.IntegerField(allow_null=True)
    payload_schema = serializers.DictField(allow_null=True, help_text="JSON Schema of the payload.")


class JobTypesSerializer(Shape):
    results = JobTypeSerializer(many=True)


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


class FaultSerializer(Shape):
    field = serializers.CharField(help_text="Path of the field, such as schedule.cron.")
    message = serializers.CharField()


class ProblemSerializer(Shape):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    errors = FaultSerializer(many=True, required=False)  # type: ignore[assignment]
