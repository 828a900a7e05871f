"""The shapes of secrets as they are answered, which is never with the value."""

from rest_framework import serializers

from jobs.api.serializers.shared import Shape


class SecretSerializer(Shape):
    name = serializers.CharField()
    version = serializers.IntegerField(help_text="One more with each new value.")
    hosts = serializers.ListField(child=serializers.CharField(), help_text="What may be sent it.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class SigningSecretSerializer(Shape):
    rotating = serializers.BooleanField(help_text="Requests carry two signatures.")
    retires_at = serializers.DateTimeField(
        allow_null=True, help_text="When the older of two is used no longer."
    )
