"""What the payload models of the built-in types have in common: strictness."""

from pydantic import BaseModel, ConfigDict


class BuiltInPayload(BaseModel):
    """No unknown fields, no guessed conversions ("5" is not 5), nothing to change afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
