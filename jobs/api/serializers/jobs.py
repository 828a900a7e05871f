"""Jobs as they are written and read, and the firings to come."""

from rest_framework import serializers

from jobs.api.serializers.shared import Shape, Shown
from jobs.shapes.job import JobShape


class JobSerializer(Shown):
    shape = JobShape


class FiringSerializer(Shape):
    at = serializers.DateTimeField()
    local = serializers.DateTimeField(help_text="The same instant in the schedule's time zone.")
    wall = serializers.CharField(help_text="The wall-clock time the schedule named, without an offset.")
    note = serializers.CharField(allow_null=True, help_text="What a change of clocks has to do with it.")


class PreviewSerializer(Shape):
    description = serializers.CharField(help_text="The schedule in words.")
    tzdata = serializers.CharField(help_text="The release of the time zone database in use, such as 2026a.")
    firings = FiringSerializer(many=True)
