"""Firings and what became of them: triggers, attempts, backfills, and what a replay takes."""

from rest_framework import serializers

from jobs.api.serializers.shared import Shape
from jobs.core.policies import Priority
from jobs.core.pull import shown_name
from jobs.models import Attempt, SkippedRange, Trigger
from jobs.shapes.terms import seconds
from jobs.store.effects import duplicates_prevented


class TriggerSerializer(serializers.ModelSerializer[Trigger]):
    job_id = serializers.UUIDField()
    job_type = serializers.SerializerMethodField()
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

    def get_job_type(self, trigger: Trigger) -> str:
        return shown_name(trigger.job_type)

    def get_priority(self, trigger: Trigger) -> str:
        return Priority(trigger.priority).label


class OneTriggerSerializer(TriggerSerializer):
    """A trigger read by itself, with what takes a look elsewhere."""

    duplicates_prevented = serializers.SerializerMethodField(
        help_text="How often an effect was left out because an earlier execution had made it (ctx.once)."
    )

    class Meta:
        model = Trigger
        fields = (*TriggerSerializer.Meta.fields, "duplicates_prevented")
        read_only_fields = fields

    def get_duplicates_prevented(self, trigger: Trigger) -> int:
        return duplicates_prevented(trigger.id)


class SkippedRangeSerializer(serializers.ModelSerializer[SkippedRange]):
    """Described to OpenAPI by ``jobs.api.pagination``, as a part of a page."""

    class Meta:
        model = SkippedRange
        fields = ("from_at", "until_at", "count", "reason")
        read_only_fields = fields


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    trigger_id = serializers.UUIDField()
    duration_seconds = serializers.SerializerMethodField()

    class Meta:
        model = Attempt
        fields = (
            "id", "trigger_id", "job_id", "number", "fence", "worker", "celery_task_id", "state", "started_at",
            "finished_at", "duration_seconds", "error_code", "error_class", "error_message", "traceback",
            "http_status", "response_excerpt", "companions",
        )  # fmt: skip
        read_only_fields = fields

    def get_duration_seconds(self, attempt: Attempt) -> float | None:
        return None if attempt.duration is None else seconds(attempt.duration)


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


class ReplayCountSerializer(Shape):
    replayed = serializers.IntegerField()
