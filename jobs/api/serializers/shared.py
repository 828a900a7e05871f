"""What all shapes share, and the shape of an error."""

from typing import Any

from rest_framework import serializers

from jobs.shapes.base import Described


class Shape(serializers.Serializer[Any]):
    """A JSON object without a table."""


class Shown(serializers.Serializer[Any]):
    """A shape of ``jobs.shapes`` where DRF wants a serializer: of lists, and to tell its fields."""

    shape: type[Described]

    @property
    def fields(self) -> Any:
        return self.shape.model_fields


class Shaped(serializers.Field[Any, Any, Any, Any]):
    """A shape of ``jobs.shapes`` as a part of a serializer."""

    def __init__(self, shape: type[Described], **options: Any) -> None:
        super().__init__(**options)
        self.shape = shape


def words(values: Any, **options: Any) -> serializers.ChoiceField:
    return serializers.ChoiceField(choices=[(str(value), str(value)) for value in values], **options)


class FaultSerializer(Shape):
    field = serializers.CharField(help_text="Path of the field, such as schedule.cron.")
    message = serializers.CharField()


class ProblemSerializer(Shape):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    errors = FaultSerializer(many=True, required=False)  # type: ignore[assignment]
    quota = serializers.CharField(required=False, help_text="Of a quota that is reached: its name.")
    limit = serializers.IntegerField(required=False, help_text="Of that quota.")
    used = serializers.IntegerField(required=False, help_text="Of that limit.")
