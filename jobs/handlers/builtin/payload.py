"""The common base of the built-in types' payload models: strictness."""

from pydantic import BaseModel, ConfigDict


class BuiltInPayload(BaseModel):
    """No unknown fields, no guessed conversions ("5" is not 5), no changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
