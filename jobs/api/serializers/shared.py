"""What all shapes share, and the shape of an error."""

from typing import Any

from rest_framework import serializers


class Shape(serializers.Serializer[Any]):
    """A JSON object without a table."""


class Variants(serializers.Serializer[Any]):
    """One of several shapes, for OpenAPI; ``keyword`` is ``anyOf`` where some documents fit more than one."""

    keyword = "oneOf"
    variants: tuple[type[Shape], ...] = ()


#: A text on one line, without blanks at its ends. What else is not printable no such expression can say.
LINE = r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$"


def line(max_length: int, **options: Any) -> serializers.CharField:
    """``jobs.actions.fields.Fields.text``, described."""
    return serializers.RegexField(LINE, max_length=max_length, trim_whitespace=False, **options)


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
