"""Many at once: jobs to be created together, and operations on all that match a filter."""

from rest_framework import serializers

from jobs.api.serializers.shared import ProblemSerializer, Shape, words
from jobs.shapes.operations import VERBS


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


class MatchCountSerializer(Shape):
    matching = serializers.IntegerField()
    exact = serializers.BooleanField(
        help_text="False: there are more rows than a dry run looks at (100,000)."
    )


class RefusalSerializer(Shape):
    id = serializers.UUIDField()
    detail = serializers.CharField()


class OperationSerializer(Shape):
    """Rendered by ``jobs.actions.bulk.operations.representation``."""

    id = serializers.UUIDField()
    verb = words(VERBS)
    filter = serializers.DictField(child=serializers.CharField())
    status = words(("running", "finished", "cancelled"))
    done = serializers.IntegerField(
        help_text="Jobs or triggers it was done to; also those that were so already."
    )
    refused = serializers.IntegerField(help_text="Those to which it could not be done.")
    refusals = RefusalSerializer(many=True, help_text="The first of them, at most 20, with why.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(help_text="When it last went on.")
    finished_at = serializers.DateTimeField(allow_null=True)
