"""The shapes of schedules and of retry policies: whole ones by their kind, and what an edit may send of them."""

from typing import Any

from rest_framework import serializers

from jobs.actions.schedules import LONGEST_JITTER_SECONDS
from jobs.api.serializers.shared import Shape, Variants, words
from jobs.core.backoff import (
    LARGEST_FACTOR,
    LONGEST_DELAY_SECONDS,
    LONGEST_ELAPSED_SECONDS,
    MOST_ATTEMPTS,
    SHORTEST_DELAY_SECONDS,
    Backoff,
    Jitter,
)
from jobs.core.policies import CronDialect, DstPolicy
from jobs.core.schedule import LONGEST_INTERVAL, SHORTEST_INTERVAL, ScheduleType


class ScheduleChangesSerializer(Shape):
    """Any part of a schedule; without a type, of the one the job has."""

    type = words(ScheduleType, required=False)
    cron = serializers.CharField(required=False, max_length=100, help_text="cron: five fields, or a macro")
    cron_dialect = words(
        CronDialect, required=False, help_text="cron: quartz has six fields, seconds first, 1 = Sunday"
    )
    timezone = serializers.CharField(
        required=False, max_length=64, help_text="cron: IANA name; UTC by default"
    )
    dst_policy = words(DstPolicy, required=False, help_text="cron: where clocks change; vixie by default")
    every_seconds = serializers.FloatField(
        required=False,
        min_value=SHORTEST_INTERVAL.total_seconds(),
        max_value=LONGEST_INTERVAL.total_seconds(),
        help_text="interval",
    )
    run_at = serializers.DateTimeField(required=False, help_text="once")
    starts_at = serializers.DateTimeField(required=False, allow_null=True)
    ends_at = serializers.DateTimeField(required=False, allow_null=True)
    jitter_seconds = serializers.FloatField(
        required=False, min_value=0, max_value=LONGEST_JITTER_SECONDS, help_text="Shorter than every_seconds."
    )


class CronScheduleSerializer(ScheduleChangesSerializer):
    type = words((ScheduleType.CRON,))
    cron = serializers.CharField(max_length=100, help_text="Five fields, or a macro such as @daily.")
    every_seconds = run_at = None  # type: ignore[assignment]


class IntervalScheduleSerializer(ScheduleChangesSerializer):
    type = words((ScheduleType.INTERVAL,))
    every_seconds = serializers.FloatField(
        min_value=SHORTEST_INTERVAL.total_seconds(), max_value=LONGEST_INTERVAL.total_seconds()
    )
    cron = cron_dialect = timezone = dst_policy = run_at = None  # type: ignore[assignment]


class OnceScheduleSerializer(ScheduleChangesSerializer):
    type = words((ScheduleType.ONCE,))
    run_at = serializers.DateTimeField()
    cron = cron_dialect = timezone = dst_policy = every_seconds = None  # type: ignore[assignment]


class ImmediateScheduleSerializer(ScheduleChangesSerializer):
    type = words((ScheduleType.IMMEDIATE,))
    cron = cron_dialect = timezone = dst_policy = every_seconds = run_at = None  # type: ignore[assignment]


class ScheduleSerializer(Variants):
    """Its type says which fields it has."""

    variants = (
        CronScheduleSerializer,
        IntervalScheduleSerializer,
        OnceScheduleSerializer,
        ImmediateScheduleSerializer,
    )


def _delay(**options: Any) -> serializers.FloatField:
    return serializers.FloatField(
        required=False, min_value=SHORTEST_DELAY_SECONDS, max_value=LONGEST_DELAY_SECONDS, **options
    )


class RetryPolicyChangesSerializer(Shape):
    """Any part of a retry policy; without a backoff, of the one the job has."""

    max_attempts = serializers.IntegerField(required=False, min_value=1, max_value=MOST_ATTEMPTS)
    backoff = words(Backoff, required=False)
    initial_delay_seconds = _delay()
    factor = serializers.FloatField(required=False, min_value=1, max_value=LARGEST_FACTOR)
    max_delay_seconds = _delay(help_text="No shorter than initial_delay_seconds.")
    delays_seconds = serializers.ListField(
        child=_delay(), required=False, min_length=1, max_length=MOST_ATTEMPTS
    )
    jitter = words(Jitter, required=False)
    max_elapsed_seconds = serializers.FloatField(
        required=False, min_value=SHORTEST_DELAY_SECONDS, max_value=LONGEST_ELAPSED_SECONDS
    )


class FixedRetriesSerializer(RetryPolicyChangesSerializer):
    """The same delay before each."""

    backoff = words((Backoff.FIXED,))
    factor = delays_seconds = None  # type: ignore[assignment]


class GrowingRetriesSerializer(RetryPolicyChangesSerializer):
    """Each delay is ``factor`` times the one before."""

    backoff = words((Backoff.EXPONENTIAL,), required=False)
    delays_seconds = None  # type: ignore[assignment]


class ListedRetriesSerializer(RetryPolicyChangesSerializer):
    """One delay after the other, and the last again and again."""

    backoff = words((Backoff.DELAYS,), required=False)
    initial_delay_seconds = factor = max_delay_seconds = None  # type: ignore[assignment]


class RetryPolicySerializer(Variants):
    """Its backoff, given or told by the other fields, says which fields it has."""

    keyword = "anyOf"
    variants = (FixedRetriesSerializer, GrowingRetriesSerializer, ListedRetriesSerializer)
