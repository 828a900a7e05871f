"""The shapes of secrets: what is written, and what is told of them, which is never the value."""

from rest_framework import serializers

from jobs.api.serializers.shared import Shape

_B64 = "[A-Za-z0-9+/]"
_QUAD = f"({_B64}{{4}})"


class SecretSerializer(Shape):
    name = serializers.CharField()
    version = serializers.IntegerField(help_text="One more with each new value.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class SecretValueSerializer(Shape):
    value = serializers.RegexField(
        r"^[!-~][ -~]{6,4094}[!-~]$",
        help_text="8 to 4096 printable ASCII characters, without blanks at the ends. Never shown again.",
    )


class NewSigningSecretSerializer(Shape):
    secret = serializers.RegexField(
        rf"^whsec_({_QUAD}{{8,21}}|{_QUAD}{{8,21}}{_B64}{{2}}==|{_QUAD}{{8,20}}{_B64}{{3}}=)$",
        help_text="`whsec_` and the base64 of 24 to 64 random bytes. Never shown again.",
    )
    overlap_seconds = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=2_592_000,
        help_text="For how long requests carry the signature of the secret before it too; a day by default.",
    )


class SigningSecretSerializer(Shape):
    rotating = serializers.BooleanField(help_text="Requests carry two signatures.")
    retires_at = serializers.DateTimeField(
        allow_null=True, help_text="When the older of two is used no longer."
    )
