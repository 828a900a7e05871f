"""Many at once: jobs to be created together, and operations on all that match a filter."""

from rest_framework import serializers

from jobs.api.serializers.jobs import DefinitionSerializer
from jobs.api.serializers.shared import ProblemSerializer, Shape


class BulkSerializer(Shape):
    jobs = DefinitionSerializer(many=True, help_text="1 to 1,000 definitions.")
    all_or_nothing = serializers.BooleanField(
        required=False, help_text="Refuse all of them if one has to be refused."
    )


class BulkItemSerializer(Shape):
    """What became of one definition."""

    index = serializers.IntegerField(help_text="Its place in jobs, from 0.")
    status = serializers.IntegerField(help_text="201, or that of the problem.")
    id = serializers.UUIDField(required=False)
    name = serializers.CharField(required=False)
    version = serializers.IntegerField(required=False)
    next_fire_at = serializers.DateTimeField(required=False, allow_null=True)
    problem = ProblemSerializer(required=False)


class BulkAnswerSerializer(Shape):
    created = serializers.IntegerField()
    refused = serializers.IntegerField()
    results = BulkItemSerializer(many=True, help_text="One for each definition, in order.")
