"""The engine's settings: one environment variable each, ``CARILLON_`` + the upper-case field name, unit in the name.

``scheduler_project.environment`` builds the object once at start (listing every bad setting at once) and puts it
into Django's settings as ``CARILLON``; all other code asks ``engine_settings()``.
"""

import re
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, cast
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from jobs.core.errors import InvalidInput
from jobs.core.levers import targets
from jobs.core.levers.breaker import Policy


def _split(value: object) -> object:
    """``"a, b"`` -> ``["a", "b"]``; anything that is not text is left to pydantic."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _networks(value: object) -> object:
    parts = _split(value)
    return tuple(ip_network(part) for part in parts) if isinstance(parts, list) else parts


def _rates(value: object) -> object:
    """``"a=5, b:8443=0.5"`` -> ``{"a": 5.0, "b:8443": 0.5}``."""
    parts = _split(value)
    if not isinstance(parts, list):
        return value
    pairs = [part.rpartition("=") for part in parts]
    if faulty := [part for part, (host, _, rate) in zip(parts, pairs, strict=True) if not host or not rate]:
        raise ValueError(f"{faulty[0]!r} is not host=rate, such as api.example.com=5")
    return {_pattern(host): rate.strip() for host, _, rate in pairs}


def _pattern(text: str) -> str:
    try:
        return targets.read_pattern(text.strip())
    except InvalidInput as error:
        raise ValueError(f"{text.strip()!r} is not a host: {' '.join(error.errors['pattern'])}") from None


def _ports(value: str) -> str:
    for part in value.split(","):
        low, _, high = part.strip().partition("-")
        if not re.fullmatch("[0-9]{1,5}(-[0-9]{1,5})?", part.strip()):
            raise ValueError(f"{part.strip()!r} is not a port or a range of ports, such as 443 or 8000-8999")
        if not 1 <= int(low) <= int(high or low) <= 65_535:
            raise ValueError(f"{part.strip()!r} must lie within 1-65535, lowest first")
    return value


def _archive(url: str) -> str:
    parts = urlsplit(url)
    is_local = parts.scheme == "file" and not parts.netloc and len(parts.path) > 1
    is_bucket = parts.scheme == "s3" and re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc)
    if url and (not (is_local or is_bucket) or parts.query or parts.fragment):
        raise ValueError(f"must look like file:///var/carillon/archive or s3://bucket/prefix (got {url!r})")
    return url


Rates = Annotated[
    dict[str, Annotated[float, Field(ge=targets.MIN_RATE, le=targets.MAX_RATE)]],
    NoDecode,
    BeforeValidator(_rates),
]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode, BeforeValidator(_networks)]

Ports = Annotated[str, AfterValidator(_ports)]


class EngineSettings(BaseSettings):
    """Every knob of the engine with its default and bounds."""

    model_config = SettingsConfigDict(
        env_prefix="CARILLON_", frozen=True, extra="ignore", env_ignore_empty=True
    )

    # Beat
    leader_election: bool = Field(
        True, description="Off: every beat leads, which only wastes work (DESIGN §2.11)."
    )
    leader_lease_seconds: float = Field(10, ge=2, le=60)
    look_ahead_seconds: float = Field(60, ge=1, le=3600)
    materialize_batch: int = Field(
        500, ge=1, le=10_000, description="Jobs that one materialize statement takes."
    )
    dispatch_batch: int = Field(
        1000, ge=1, le=10_000, description="Triggers that one dispatch statement takes."
    )
    batching: bool = Field(True, description="Off: each message carries one trigger, at any load.")
    queue_wait_ms: int = Field(
        1000, ge=50, le=60_000, description="How much work of a job type is queued ahead of its workers."
    )
    queue_window_initial: int = Field(
        256,
        ge=1,
        le=1_000_000,
        description="Triggers queued before the workers' pace is known; the least while dispatch is slow.",
    )
    queue_window_min: int = Field(16, ge=1, le=1_000_000)
    queue_window_max: int = Field(20_000, ge=1, le=1_000_000)
    target_rate_per_second: float = Field(
        0, ge=0, le=100_000, description="Most webhooks per second to one host; 0: no limit."
    )
    target_rates: Rates = Field(default={}, description="Hosts with their own rate limit: host=rate, …")
    breaker_failures: int = Field(
        10,
        ge=1,
        le=10_000,
        description="Number of failed calls to a host in a window that opens a tenant's circuit breaker.",
    )
    breaker_ratio: float = Field(
        0.5, gt=0, le=1, description="Share of all calls in a window that must have failed."
    )
    breaker_window_seconds: float = Field(60, ge=1, le=3600)
    breaker_wait_seconds: float = Field(
        30,
        ge=1,
        le=3600,
        description="How long a breaker is open before a call probes the host; doubles with each failure.",
    )
    dispatch_deadline_seconds: float = Field(30, ge=1, le=3600)
    brokerless_fallback: bool = Field(
        False, description="On: while the broker is away, messages go through Postgres."
    )
    queue_type: str = Field(
        "default",
        pattern="^(default|classic|quorum)$",
        description="Type of the job types' queues on RabbitMQ; default: the virtual host decides.",
    )
    max_sleep_ms: int = Field(250, ge=10, le=10_000)
    history_days: int = Field(90, ge=1, le=3650)
    ended_job_days: int = Field(
        30,
        ge=1,
        le=3650,
        description="How long completed and cancelled jobs without delete_after_seconds stay.",
    )
    archive_url: Annotated[str, AfterValidator(_archive)] = Field(
        "",
        description="Where history is written before it is dropped: file:///directory or s3://bucket/prefix.",
    )
    audit_days: int = Field(400, ge=1, le=3650, description="How long the audit trail is kept.")

    lag_warn_seconds: float = Field(
        10,
        ge=0.1,
        le=86_400,
        description="How late a due trigger may be before the console's overview says so.",
    )
    metrics_tenants: int = Field(
        20, ge=0, le=1000, description="Number of busiest tenants with their own series in /metrics."
    )

    # Worker
    worker_lease_seconds: float = Field(30, ge=3, le=600)
    stop_grace_seconds: float = Field(
        15,
        ge=0,
        le=3600,
        description="Time between asking a handler to stop, interrupting it, and ending its process.",
    )
    drain_seconds: float = Field(
        25,
        ge=0,
        le=86_400,
        description="Time after SIGTERM until attempts that still run in a prefork worker are handed back.",
    )
    finish_flush_ms: int = Field(100, ge=1, le=5000)

    pool_niceness: int = Field(
        0, ge=0, le=19, description="How far the processes of prefork pools stand back on busy processors."
    )
    reserved_slots: int = Field(
        0, ge=0, le=1000, description="Slots of each worker for critical and high triggers only (with Redis)."
    )

    # Web
    long_polls: int = Field(
        8, ge=1, le=1000, description="Requests that may wait at once for work or events in a web process."
    )

    replica_max_lag_seconds: float = Field(
        10,
        ge=1,
        le=3600,
        description="How old the replica's answers may be; if they are older, the primary is asked.",
    )

    # API
    api_rate_per_second: int = Field(
        1000, ge=0, le=1_000_000, description="API calls per second with one key; 0: no limit."
    )
    api_rate_burst: int = Field(5000, ge=1, le=10_000_000, description="API calls at once with one key.")

    # Handlers
    handler_modules: Names = Field(default=(), description="Modules whose import registers job types.")
    disabled_types: Names = Field(default=(), description="Job types that no tenant may use.")
    noop_enabled: bool = Field(
        False, description="On: jobs may have the type noop, which is for measurements."
    )
    queue_max_messages: int = Field(
        10_000, ge=1, le=100_000_000, description="Most messages in a queue of jobs; others are retried."
    )
    tenant_queue_bytes: int = Field(
        67_108_864,
        ge=1024,
        le=2**40,
        description="Most bytes in all queues in Redis that a tenant's jobs write to.",
    )
    webhook_allow_networks: Networks = Field(
        default=(), description="CIDRs exempt from the ban on private addresses."
    )
    webhook_allow_ports: Ports = Field("80,443,1024-65535", description="Ports and ranges of ports.")
    webhook_max_response_bytes: int = Field(65_536, ge=0, le=10_485_760)
    webhook_connect_timeout_seconds: float = Field(5, gt=0, le=60)
    webhook_max_timeout_seconds: float = Field(300, ge=1, le=86_400)

    # Logging
    log_format: str = Field("console", pattern="^(console|json)$")
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")

    @model_validator(mode="after")
    def _windows_are_in_order(self) -> "EngineSettings":
        if not self.queue_window_min <= self.queue_window_initial <= self.queue_window_max:
            raise ValueError(
                f"CARILLON_QUEUE_WINDOW_MIN ({self.queue_window_min}), _INITIAL ({self.queue_window_initial}) and "
                f"_MAX ({self.queue_window_max}) must be in this order"
            )
        return self

    @property
    def urgent_window(self) -> int:
        """How many critical and high triggers of a job type may be queued beyond its full window."""
        return self.queue_window_min if self.reserved_slots else 0

    @property
    def target_rules(self) -> list[targets.Rule]:
        """The rules for targets that an installation begins with."""
        rates = dict(self.target_rates)
        if self.target_rate_per_second:
            rates = {targets.EVERY: self.target_rate_per_second} | rates
        return [targets.Rule(name, rate, set_by_operator=False) for name, rate in rates.items()]

    @property
    def breaker_policy(self) -> Policy:
        return Policy(
            failures=self.breaker_failures,
            ratio=self.breaker_ratio,
            window=timedelta(seconds=self.breaker_window_seconds),
            wait=timedelta(seconds=self.breaker_wait_seconds),
        )

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

    @property
    def replica_max_lag(self) -> timedelta:
        return timedelta(seconds=self.replica_max_lag_seconds)

    @property
    def webhook_max_timeout(self) -> timedelta:
        return timedelta(seconds=self.webhook_max_timeout_seconds)

    @property
    def webhook_ports(self) -> tuple[range, ...]:
        parts = [part.strip().partition("-") for part in self.webhook_allow_ports.split(",")]
        return tuple(range(int(low), int(high or low) + 1) for low, _, high in parts)


def engine_settings() -> EngineSettings:
    """The settings of this process, validated at start."""
    return cast(EngineSettings, django_settings.CARILLON)
