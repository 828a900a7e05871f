"""The shapes of the pull workers' API, for OpenAPI."""

from rest_framework import serializers

from jobs.api.serializers.shared import Shape, Variants, line, words
from jobs.core.pull import LONGEST_NAME
from jobs.handlers.registry import NAME as JOB_TYPE

#: What a tenant may call a type of its own.
PULL_TYPE = f"^[a-z][a-z0-9_.]{{0,{LONGEST_NAME - 1}}}$"


class DeclarationSerializer(Shape):
    description = line(500, required=False, allow_blank=True)
    payload_schema = serializers.DictField(
        required=False,
        allow_null=True,
        help_text="JSON Schema (2020-12), without patterns and foreign references.",
    )
    timeout_seconds = serializers.FloatField(
        required=False, min_value=1, max_value=86_400, help_text="Of one attempt; 60 by default."
    )
    max_in_flight = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=1_000_000,
        help_text="Queued or running at once.",
    )


class ClaimRequestSerializer(Shape):
    worker = line(100, help_text="Who asks, for the history of attempts.")
    job_types = serializers.ListField(
        child=serializers.RegexField(f"^{JOB_TYPE.pattern}$"),
        min_length=1,
        max_length=100,
        help_text="1 to 100 types that pull workers may serve.",
    )
    capacity = serializers.IntegerField(
        required=False, min_value=1, max_value=100, help_text="How many it can start at once; 1 by default."
    )
    wait_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=30,
        help_text="How long to wait while there is nothing; 0 by default.",
    )


class WorkSerializer(Shape):
    trigger_id = serializers.UUIDField()
    fence = serializers.IntegerField(help_text="Proof of ownership: every report carries it.")
    attempt_id = serializers.UUIDField()
    attempt_number = serializers.IntegerField()
    job_id = serializers.UUIDField()
    job_name = serializers.CharField()
    job_type = serializers.CharField()
    scheduled_for = serializers.DateTimeField()
    idempotency_key = serializers.CharField(help_text="The same for every attempt at this firing.")
    timeout_seconds = serializers.FloatField(help_text="After which heartbeats no longer keep it.")
    payload = serializers.DictField()
    checkpoint = serializers.DictField(allow_null=True, help_text="What an earlier attempt left.")


class ClaimedSerializer(Shape):
    triggers = WorkSerializer(many=True)
    lease_seconds = serializers.FloatField(help_text="Send a heartbeat well within this time.")


class ProgressSerializer(Shape):
    fraction = serializers.FloatField(min_value=0, max_value=1)
    stage = line(200, required=False, allow_blank=True)


class ReportSerializer(Shape):
    trigger_id = serializers.UUIDField()
    fence = serializers.IntegerField(min_value=0, max_value=2**31 - 1)
    progress = ProgressSerializer(required=False)
    checkpoint = serializers.DictField(
        required=False, help_text="Found by the next attempt, if there is one."
    )


class HeartbeatRequestSerializer(Shape):
    triggers = serializers.ListField(child=ReportSerializer(), min_length=1, max_length=100)


class HeldSerializer(Shape):
    trigger_id = serializers.UUIDField()
    status = words(
        ("held", "cancel", "timed_out", "lost"),
        help_text="held: go on. cancel: stop, complete as cancelled. timed_out, lost: stop, it is no longer yours.",
    )


class HeartbeatSerializer(Shape):
    triggers = HeldSerializer(many=True)


class ErrorSerializer(Shape):
    message = serializers.CharField(required=False)
    code = serializers.CharField(
        required=False, max_length=64, help_text="For filters; worker_failed by default."
    )
    kind = serializers.CharField(required=False, max_length=200, help_text="Such as the exception's class.")
    traceback = serializers.CharField(required=False)


class OutcomeSerializer(Shape):
    trigger_id = serializers.UUIDField()
    fence = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


class SuccessSerializer(OutcomeSerializer):
    outcome = words(("succeeded",))
    result = serializers.JSONField(required=False, help_text="At most 64 KiB.")


class FailureSerializer(OutcomeSerializer):
    outcome = words(("failed",))
    error = ErrorSerializer(required=False)
    permanent = serializers.BooleanField(required=False, help_text="Bury it, no retry can help.")
    retry_after_seconds = serializers.FloatField(
        required=False, min_value=0, max_value=86_400, help_text="No retry before."
    )
    pause_job = serializers.BooleanField(
        required=False, help_text="Pause the job, too; goes with permanent: true."
    )


class StoppedSerializer(OutcomeSerializer):
    outcome = words(("cancelled",))


class CompleteRequestSerializer(Variants):
    """The outcome says which fields it has."""

    variants = (SuccessSerializer, FailureSerializer, StoppedSerializer)


class CompletedSerializer(Shape):
    trigger_id = serializers.UUIDField()
    fence = serializers.IntegerField()
    attempt_id = serializers.UUIDField()
    attempt_number = serializers.IntegerField()
    attempt_state = serializers.CharField(help_text="What the outcome was: succeeded, failed or cancelled.")
