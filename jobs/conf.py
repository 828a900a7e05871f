"""The engine's settings: one environment variable each, ``CARILLON_`` + the upper-case field name, unit in the name.

``scheduler_project.environment`` builds the object once at start (listing every bad setting at once) and puts it
into Django's settings as ``CARILLON``; all other code asks ``engine_settings()``.
"""

from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, cast

from django.conf import settings as django_settings
from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


def _split(value: object) -> object:
    """``"a, b"`` -> ``["a", "b"]``; anything that is not text is left to pydantic."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _networks(value: object) -> object:
    parts = _split(value)
    return tuple(ip_network(part) for part in parts) if isinstance(parts, list) else parts


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode, BeforeValidator(_networks)]


class EngineSettings(BaseSettings):
    """Every knob of the engine with its default and bounds."""

    model_config = SettingsConfigDict(env_prefix="CARILLON_", frozen=True, extra="ignore")

    # Beat
    leader_election: bool = Field(True, description="Off: every beat leads (merely wasteful, DESIGN §2.11).")
    leader_lease_seconds: float = Field(10, ge=2, le=60)
    look_ahead_seconds: float = Field(60, ge=1, le=3600)
    materialize_batch: int = Field(500, ge=1, le=10_000, description="Jobs a materialize statement takes.")
    dispatch_batch: int = Field(1000, ge=1, le=10_000, description="Triggers a dispatch statement takes.")
    queue_window: int = Field(
        4000, ge=1, le=1_000_000, description="Triggers of one job type that may be queued at once."
    )
    dispatch_deadline_seconds: float = Field(30, ge=1, le=3600)
    max_sleep_ms: int = Field(250, ge=10, le=10_000)
    history_days: int = Field(90, ge=1, le=3650)

    # Worker
    worker_lease_seconds: float = Field(30, ge=3, le=600)
    finish_flush_ms: int = Field(100, ge=1, le=5000)

    # Handlers
    handler_modules: Names = Field(default=(), description="Modules whose import registers job types.")
    webhook_allow_networks: Networks = Field(
        default=(), description="CIDRs exempt from the ban on private addresses."
    )
    webhook_max_response_bytes: int = Field(65_536, ge=0, le=10_485_760)
    webhook_connect_timeout_seconds: float = Field(5, gt=0, le=60)

    # Logging
    log_format: str = Field("console", pattern="^(console|json)$")
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")

    @model_validator(mode="after")
    def _a_dispatch_fits_the_window(self) -> "EngineSettings":
        if self.dispatch_batch > self.queue_window:
            raise ValueError(
                f"CARILLON_DISPATCH_BATCH ({self.dispatch_batch}) must not exceed "
                f"CARILLON_QUEUE_WINDOW ({self.queue_window})"
            )
        return self

    @property
    def leader_lease(self) -> timedelta:
        return timedelta(seconds=self.leader_lease_seconds)

    @property
    def look_ahead(self) -> timedelta:
        return timedelta(seconds=self.look_ahead_seconds)

    @property
    def dispatch_deadline(self) -> timedelta:
        return timedelta(seconds=self.dispatch_deadline_seconds)

    @property
    def worker_lease(self) -> timedelta:
        return timedelta(seconds=self.worker_lease_seconds)


def engine_settings() -> EngineSettings:
    """The settings of this process, validated at start."""
    return cast(EngineSettings, django_settings.CARILLON)
