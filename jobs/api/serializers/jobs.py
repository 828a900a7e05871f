"""Jobs as they are written and read, and the firings to come."""

from django.core.validators import MaxLengthValidator
from rest_framework import serializers

from jobs.actions import definition as limits
from jobs.actions.definition import ACCEPTED
from jobs.actions.labels import MOST, WORD
from jobs.actions.notices import ON
from jobs.api.serializers.schedules import (
    RetryPolicyChangesSerializer,
    RetryPolicySerializer,
    ScheduleChangesSerializer,
    ScheduleSerializer,
)
from jobs.api.serializers.shared import Shape, Variants, line, words
from jobs.core.policies import Priority
from jobs.core.states import JobStatus
from jobs.handlers.registry import NAME as JOB_TYPE

PRIORITIES = [priority.label for priority in Priority]


class NotifyShape(Shape):
    on = serializers.ListField(
        child=words(ON), min_length=1, help_text="failed: an attempt failed and is tried again."
    )
    url = serializers.RegexField(
        r"^[Hh][Tt][Tt][Pp][Ss]?://", required=False, max_length=2048, help_text="Gets a signed webhook."
    )
    email = serializers.EmailField(
        required=False, max_length=254, help_text="Where the installation sends e-mail."
    )


class NotifyByWebhookSerializer(NotifyShape):
    url = serializers.RegexField(
        r"^[Hh][Tt][Tt][Pp][Ss]?://", max_length=2048, help_text="Gets a signed webhook."
    )


class NotifyByEmailSerializer(NotifyShape):
    email = serializers.EmailField(max_length=254, help_text="Where the installation sends e-mail.")


class NotifySerializer(Variants):
    """A url, an email, or both."""

    keyword = "anyOf"
    variants = (NotifyByWebhookSerializer, NotifyByEmailSerializer)


class DefinitionSerializer(Shape):
    """A job as it is written."""

    name = line(
        limits.LONGEST_NAME,
        required=False,
        help_text="Optional for once and immediate; unique among your jobs.",
    )
    labels = serializers.DictField(
        child=serializers.RegexField(f"^{WORD}$"),
        required=False,
        validators=[MaxLengthValidator(MOST)],
        help_text="Up to 32 keys and values of 1 to 63 letters, digits, _ . / and -; lists are filtered by them.",
    )
    job_type: serializers.CharField = serializers.RegexField(
        f"^{JOB_TYPE.pattern}$", help_text="One of GET /job-types."
    )
    schedule = ScheduleSerializer()
    payload = serializers.DictField(required=False, help_text="As the job type's schema demands.")
    priority = words(PRIORITIES, required=False)
    timeout_seconds = serializers.FloatField(
        required=False,
        min_value=0.1,
        max_value=limits.LONGEST_TIMEOUT_SECONDS,
        help_text="Of one attempt; the job type's by default.",
    )
    retry_policy = RetryPolicySerializer(required=False)
    overlap_policy = words(ACCEPTED["overlap_policy"][1], required=False)
    max_concurrent = serializers.IntegerField(required=False, min_value=1, max_value=limits.MOST_CONCURRENT)
    concurrency_key = line(
        limits.LONGEST_NAME,
        required=False,
        allow_blank=True,
        help_text="max_concurrent then bounds all of your jobs with this key together.",
    )
    misfire_policy = words(ACCEPTED["misfire_policy"][1], required=False)
    misfire_grace_seconds = serializers.FloatField(
        required=False, min_value=1, max_value=limits.LONGEST_GRACE_SECONDS
    )
    catchup_window_seconds = serializers.FloatField(
        required=False, min_value=0, max_value=limits.LONGEST_CATCHUP_SECONDS
    )
    max_catchup = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=limits.MOST_CATCHUP,
        help_text="backfill: the most missed firings that run",
    )
    delivery = words(ACCEPTED["delivery"][1], required=False)
    notify = NotifySerializer(required=False, allow_null=True, help_text="The tenant's by default.")
    pause_after_failures = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=limits.MOST_FAILURES,
        help_text="Pause the job once so many of its firings in a row died.",
    )


class ChangesSerializer(DefinitionSerializer):
    """Any part of a definition (JSON merge patch)."""

    labels = serializers.DictField(
        child=serializers.RegexField(f"^{WORD}$", allow_null=True),
        required=False,
        validators=[MaxLengthValidator(MOST)],
        help_text="Null takes a label away.",
    )
    job_type = serializers.RegexField(f"^{JOB_TYPE.pattern}$", required=False)
    schedule = ScheduleChangesSerializer(required=False)  # type: ignore[assignment]
    retry_policy = RetryPolicyChangesSerializer(required=False)  # type: ignore[assignment]


class ReplacementSerializer(DefinitionSerializer):
    """The whole of a definition; what is left out goes back to its default. The path holds the name."""

    name = line(limits.LONGEST_NAME, required=False, help_text="As in the path, or left out.")


class ClockChangeSerializer(Shape):
    at = serializers.DateTimeField(help_text="When it fires, or would have.")
    local = serializers.DateTimeField(help_text="The same instant in the schedule's time zone.")
    note = serializers.CharField()


class JobSerializer(DefinitionSerializer):
    """A job as it is read; rendered by ``jobs.actions.definition.representation``."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    job_type = serializers.CharField()
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
