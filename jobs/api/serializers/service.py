"""What a caller may know of itself and of the job types there are."""

from typing import Any

from rest_framework import serializers

from jobs.api.serializers.shared import Shape, Shaped, words
from jobs.shapes.notify import Notify
from tenants.quotas import QUOTAS


class LimitsSerializer(Shape):
    """The tenant's quotas, as ``tenants.quotas`` has them."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            quota.name: serializers.IntegerField(
                help_text=quota.help_text("null"), allow_null=quota.can_be_lifted
            )
            for quota in QUOTAS
        }


class UsageSerializer(Shape):
    jobs = serializers.IntegerField(help_text="living jobs")
    in_flight = serializers.IntegerField(help_text="triggers queued or running")
    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    starts_per_second = serializers.FloatField(help_text="Attempts started lately, as under recent.")
    starts_allowed_now = serializers.IntegerField(
        allow_null=True,
        help_text="What the rate limit lets go at once; null without one or while it is away.",
    )


class WaitsSerializer(Shape):
    p50 = serializers.FloatField()
    p95 = serializers.FloatField()
    p99 = serializers.FloatField()


class RecentSerializer(Shape):
    seconds = serializers.FloatField(
        help_text="How far back starts are counted; less than 60 under high load."
    )
    starts = serializers.IntegerField(help_text="Your attempts that started in that time.")
    share = serializers.FloatField(
        allow_null=True, help_text="Of all tenants' starts; null when there were none."
    )
    wait_seconds = WaitsSerializer(
        allow_null=True,
        help_text="From falling due to the first start, of your latest firings within 5 minutes.",
    )
    waits_of = serializers.IntegerField(help_text="How many firings that tells of.")


class TenantSerializer(Shape):
    slug = serializers.CharField()
    name = serializers.CharField()
    status = words(("active", "suspended", "frozen"))
    require_if_match = serializers.BooleanField(
        help_text="PUT, PATCH and DELETE of jobs must name the version they mean, by If-Match."
    )
    all_events = serializers.BooleanField(
        help_text="GET /events also tells of each success and each failed attempt that is retried."
    )
    notify = Shaped(Notify, allow_null=True, help_text="Of all jobs that have none of their own.")
    queues = serializers.ListField(
        child=serializers.CharField(),
        help_text="Queues that `message` and `celery_task` may write to: yours, and what an operator granted beside.",
    )
    limits = LimitsSerializer()
    usage = UsageSerializer()
    recent = RecentSerializer()


class JobTypeSerializer(Shape):
    name = serializers.CharField()
    pull = serializers.BooleanField(help_text="Your pull workers may claim its triggers.")
    description = serializers.CharField()
    timeout_seconds = serializers.FloatField()
    batch_size = serializers.IntegerField()
    max_in_flight = serializers.IntegerField(allow_null=True)
    payload_schema = serializers.DictField(allow_null=True, help_text="JSON Schema of the payload.")


class JobTypesSerializer(Shape):
    results = JobTypeSerializer(many=True)
