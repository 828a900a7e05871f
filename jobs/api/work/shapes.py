"""What pull workers are answered, for OpenAPI."""

from rest_framework import serializers

from jobs.api.serializers.shared import Shape, words
from jobs.core.pull import MAX_NAME_LENGTH

#: What a tenant may call a type of its own.
PULL_TYPE = f"^[a-z][a-z0-9_.]{{0,{MAX_NAME_LENGTH - 1}}}$"


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


class HeldSerializer(Shape):
    trigger_id = serializers.UUIDField()
    status = words(
        ("held", "cancel", "timed_out", "lost"),
        help_text="held: go on. cancel: stop, complete as cancelled. timed_out, lost: stop, it is no longer yours.",
    )


class HeartbeatSerializer(Shape):
    triggers = HeldSerializer(many=True)


class CompletedSerializer(Shape):
    trigger_id = serializers.UUIDField()
    fence = serializers.IntegerField()
    attempt_id = serializers.UUIDField()
    attempt_number = serializers.IntegerField()
    attempt_state = serializers.CharField(help_text="What the outcome was: succeeded, failed or cancelled.")
