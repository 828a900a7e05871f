"""Why something waits; rendered by ``jobs.explain``."""

from rest_framework import serializers

from jobs.api.serializers.shared import Shape, words
from jobs.core.states import JobStatus, TriggerState
from jobs.explain import GATE_NAMES
from jobs.models import CatchUp


class TriggerGateSerializer(Shape):
    gate = words(GATE_NAMES)
    open = serializers.BooleanField()
    detail = serializers.CharField(help_text="A sentence, with the figures.")
    opens_at = serializers.DateTimeField(allow_null=True, help_text="When it opens, where that is known.")
    limit = serializers.FloatField(allow_null=True, help_text="Of gates that count.")
    used = serializers.FloatField(allow_null=True, help_text="Of that limit.")
    blockers = serializers.ListField(
        child=serializers.UUIDField(), help_text="Triggers that stand in the way, the first ten."
    )


class TriggerExplanationSerializer(Shape):
    trigger_id = serializers.UUIDField()
    job_id = serializers.UUIDField()
    state = words(TriggerState)
    reason = serializers.CharField(allow_blank=True, help_text="Of a trigger that has ended.")
    at = serializers.DateTimeField(help_text="The moment all of this was true.")
    summary = serializers.CharField(help_text="The answer in a sentence or two.")
    shut = serializers.ListField(child=words(GATE_NAMES), help_text="The gates that are shut, in order.")
    ahead = serializers.IntegerField(
        help_text="Triggers of the same job type and priority that are due before it; counted to 1,000."
    )
    gates = TriggerGateSerializer(many=True, help_text="In order; none once it has ended.")


class UnfinishedSerializer(Shape):
    pending = serializers.IntegerField()
    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    retrying = serializers.IntegerField()


class CatchUpSerializer(Shape):
    id = serializers.UUIDField()
    origin = words(CatchUp.Origin.values)
    misfire_policy = serializers.CharField()
    from_at = serializers.DateTimeField()
    until_at = serializers.DateTimeField()
    cursor = serializers.DateTimeField(help_text="Every firing up to here has been dealt with.")
    fired = serializers.IntegerField()
    skipped = serializers.IntegerField()


class JobExplanationSerializer(Shape):
    job_id = serializers.UUIDField()
    status = words(JobStatus)
    status_reason = serializers.CharField(allow_blank=True)
    at = serializers.DateTimeField(help_text="The moment all of this was true.")
    summary = serializers.CharField(help_text="The answer in a sentence or two.")
    next_fire_at = serializers.DateTimeField(allow_null=True, help_text="As on the job itself.")
    unfinished = UnfinishedSerializer(help_text="Its triggers by state, counted to 10,000 in all.")
    oldest_waiting = TriggerExplanationSerializer(
        allow_null=True, help_text="The trigger that waits for the earliest firing; null when none waits."
    )
    catch_up = CatchUpSerializer(many=True, help_text="Missed firings and backfills in hand, newest first.")
