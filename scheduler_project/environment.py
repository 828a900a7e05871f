"""The process environment, read and checked once at start (12-factor).

Every bad setting is collected before the start is refused, so that one start shows one complete list. Without
``DATABASE_URL`` (or ``REDIS_URL``) the *embedded mode* supplies it: a URL that depends on the data directory alone, so
that any command finds the servers that ``manage.py up`` started there. With RabbitMQ as the broker no Redis is
supplied: Carillon does without one. Nothing here opens a connection.
"""

import os
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast
from urllib.parse import unquote, urlsplit

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import ProgrammingError
from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobs.conf import EngineSettings, Names, Networks
from scheduler_project import tracing
from scheduler_project.database.url import django_database
from scheduler_project.embedded import paths
from scheduler_project.keys import encryption_keys

S = TypeVar("S", bound=BaseSettings)
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
AMQP_SCHEMES = ("amqp", "amqps", "pyamqp")
BROKER_SCHEMES = ("redis", "rediss", "unix", "redis+socket", "sentinel", *AMQP_SCHEMES, "memory")


class Oidc(NamedTuple):
    """An identity provider, and the client that Carillon is to it."""

    issuer: str
    client_id: str
    client_secret: str
    name: str


class Platform(BaseSettings):
    """Where the servers are, and which callers are accepted. The engine's settings are ``jobs.conf.EngineSettings``."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    data_dir: Path = Field(default=Path(".carillon"), validation_alias="CARILLON_DATA_DIR")
    database_url: str | None = Field(default=None, validation_alias="DATABASE_URL")
    database_direct_url: str | None = Field(default=None, validation_alias="DATABASE_DIRECT_URL")
    database_replica_url: str | None = Field(default=None, validation_alias="DATABASE_REPLICA_URL")
    pooler: Literal["none", "session", "transaction"] = Field(
        default="none",
        validation_alias="CARILLON_POOLER",
        description="How the pooler at DATABASE_URL assigns sessions of Postgres; none: there is no pooler.",
    )
    redis_url: str | None = Field(default=None, validation_alias="REDIS_URL")
    broker_url: str | None = Field(default=None, validation_alias="BROKER_URL")
    secret_key: str | None = Field(default=None, validation_alias="SECRET_KEY", min_length=32)
    encryption_keys: str | None = Field(default=None, validation_alias="CARILLON_ENCRYPTION_KEYS")
    trail_keys: str | None = Field(default=None, validation_alias="CARILLON_TRAIL_KEYS")
    allowed_hosts: Names = Field(default=(), validation_alias="ALLOWED_HOSTS")
    csrf_trusted_origins: Names = Field(default=(), validation_alias="CSRF_TRUSTED_ORIGINS")
    trusted_proxies: Networks = Field(
        default=(ip_network("127.0.0.0/8"), ip_network("::1/128")),
        validation_alias="CARILLON_TRUSTED_PROXIES",
        description="Networks of the proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.",
    )
    debug: bool = Field(default=False, validation_alias="DEBUG")
    https: bool = Field(
        default=False,
        validation_alias="CARILLON_HTTPS",
        description="Whether Carillon is served over TLS: secure cookies, HSTS, redirect of plain HTTP.",
    )
    session_hours: float = Field(
        default=8,
        validation_alias="CARILLON_SESSION_HOURS",
        ge=0.1,
        le=720,
        description="How long a login lasts.",
    )
    session_idle_minutes: float = Field(
        default=60,
        validation_alias="CARILLON_SESSION_IDLE_MINUTES",
        ge=0,
        le=1440,
        description="An operator is signed out after this time without a click; 0: never for this reason.",
    )
    second_factor: Literal["off", "optional", "required"] = Field(
        default="off",
        validation_alias="CARILLON_SECOND_FACTOR",
        description="Whether operators may, or must, also sign in with the code of an authenticator app.",
    )
    oidc_issuer: str | None = Field(
        default=None,
        validation_alias="CARILLON_OIDC_ISSUER",
        description="Issuer of the identity provider with which operators may sign in, as in its tokens.",
    )
    oidc_client_id: str | None = Field(default=None, validation_alias="CARILLON_OIDC_CLIENT_ID")
    oidc_client_secret: str | None = Field(default=None, validation_alias="CARILLON_OIDC_CLIENT_SECRET")
    oidc_name: str = Field(
        default="single sign-on",
        validation_alias="CARILLON_OIDC_NAME",
        max_length=40,
        description="Name of the identity provider on the login page's button.",
    )
    password_sign_in: bool = Field(
        default=True,
        validation_alias="CARILLON_PASSWORD_SIGN_IN",
        description="Whether operators may also sign in with a password if there is an identity provider.",
    )
    environment: str = Field(
        default="",
        validation_alias="CARILLON_ENVIRONMENT",
        max_length=30,
        description="Name of the environment, such as production; every page of the console shows it.",
    )
    email_url: str | None = Field(
        default=None,
        validation_alias="EMAIL_URL",
        description="Mail server for notices by e-mail: smtp://user:password@host:25, smtps:// for TLS.",
    )
    email_from: str = Field(default="carillon@localhost", validation_alias="EMAIL_FROM")
    metrics_token: str | None = Field(
        default=None,
        validation_alias="CARILLON_METRICS_TOKEN",
        min_length=16,
        pattern="^[!-~]*$",
        description="Bearer token that may read /metrics; unset: only callers from the same machine may.",
    )
    flower_url: str = Field(default="http://127.0.0.1:5555", validation_alias="CARILLON_FLOWER_URL")

    @field_validator(
        "broker_url",
        "database_direct_url",
        "database_replica_url",
        "pooler",
        "debug",
        "https",
        "metrics_token",
        "flower_url",
        "trusted_proxies",
        "session_hours",
        "session_idle_minutes",
        "second_factor",
        "oidc_issuer",
        "oidc_client_id",
        "oidc_client_secret",
        "oidc_name",
        "password_sign_in",
        mode="before",
    )
    @classmethod
    def _empty_is_unset(cls, value: object, info: ValidationInfo) -> object:
        """Not for other settings that name servers and keys: a default would silently replace the empty value."""
        return cls.model_fields[str(info.field_name)].default if value == "" else value

    @field_validator("data_dir")
    @classmethod
    def _a_directory(cls, value: Path) -> Path:
        path = value.expanduser().resolve()
        if path.exists() and not path.is_dir():
            raise ValueError("must be a directory, or a path where one can be made")
        return path

    @field_validator("database_url", "database_direct_url", "database_replica_url")
    @classmethod
    def _a_postgres_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if urlsplit(value).scheme not in ("postgres", "postgresql"):
            raise ValueError("must look like postgresql://user:password@host:5432/name")
        try:
            conninfo_to_dict(value)
        except ProgrammingError as error:
            raise ValueError(f"must look like postgresql://user:password@host:5432/name ({error})") from None
        return value

    @field_validator("redis_url", "broker_url")
    @classmethod
    def _a_broker_url(cls, value: str | None) -> str | None:
        if value is not None and urlsplit(value).scheme not in BROKER_SCHEMES:
            raise ValueError("must look like redis://host:6379/0 or amqp://user:password@host:5672//")
        return value

    @field_validator("encryption_keys", "trail_keys")
    @classmethod
    def _keys_of_32_bytes(cls, value: str | None) -> str | None:
        if value is not None:
            encryption_keys(value)
        return value

    @field_validator("email_url")
    @classmethod
    def _a_mail_url(cls, value: str | None) -> str | None:
        if value:
            parts = urlsplit(value)
            try:
                fine = parts.scheme in ("smtp", "smtp+tls", "smtps") and parts.hostname and parts.port != 0
            except ValueError:
                fine = False
            if not fine:
                raise ValueError("must look like smtp://user:password@host:25, smtp+tls://… or smtps://…")
        return value or None

    @field_validator("oidc_issuer")
    @classmethod
    def _an_issuer(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            plain = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
            fine = parts.hostname and parts.port != 0 and (parts.scheme == "https" or plain)
        except ValueError:
            fine = False
        if not fine or parts.query or parts.fragment or parts.username:
            raise ValueError("must look like https://id.example.org/realms/ours")
        return value.rstrip("/")

    def oidc(self) -> "Oidc | None":
        """The identity provider; None: none is set."""
        if not (self.oidc_issuer and self.oidc_client_id and self.oidc_client_secret):
            return None
        return Oidc(self.oidc_issuer, self.oidc_client_id, self.oidc_client_secret, self.oidc_name)

    def sign_in_problems(self) -> list[str]:
        """The settings that are missing for the identity provider that is named."""
        given = {
            "CARILLON_OIDC_ISSUER": self.oidc_issuer,
            "CARILLON_OIDC_CLIENT_ID": self.oidc_client_id,
            "CARILLON_OIDC_CLIENT_SECRET": self.oidc_client_secret,
        }
        named = [name for name, value in given.items() if value]
        problems = [f"{name}: is required with {named[0]}" for name in given if named and not given[name]]
        if not named and not self.password_sign_in:
            problems.append("CARILLON_PASSWORD_SIGN_IN: can be false only with CARILLON_OIDC_ISSUER")
        return problems

    def email(self) -> dict[str, Any]:
        """Django's settings of e-mail, by name. Without a server ``EMAIL_HOST`` is empty, and no e-mail is sent."""
        parts = urlsplit(self.email_url or "")
        ports = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
        return {
            "EMAIL_HOST": parts.hostname or "",
            "EMAIL_PORT": parts.port or ports.get(parts.scheme, 25),
            "EMAIL_HOST_USER": unquote(parts.username or ""),
            "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
            "EMAIL_USE_TLS": parts.scheme == "smtp+tls",
            "EMAIL_USE_SSL": parts.scheme == "smtps",
            "EMAIL_TIMEOUT": 20,
            "DEFAULT_FROM_EMAIL": self.email_from,
        }

    @property
    def embedded_database(self) -> bool:
        return self.database_url is None

    def pooler_problems(self) -> list[str]:
        """The faults of the three settings of a pooler, taken together."""
        if self.pooler == "none":
            if self.database_direct_url:
                return ["CARILLON_POOLER: must be session or transaction with DATABASE_DIRECT_URL"]
            return []
        return [
            f"{name}: is required with CARILLON_POOLER; the URL of {whose}"
            for name, value, whose in (
                ("DATABASE_URL", self.database_url, "the pooler"),
                ("DATABASE_DIRECT_URL", self.database_direct_url, "Postgres itself, past the pooler"),
            )
            if not value
        ]

    def database(self) -> dict[str, Any]:
        """Django's ``DATABASES["default"]``: Postgres itself. ``sessions`` bounds the waits for its server."""
        url = self.database_direct_url or self.database_url or paths.embedded_database_url(self.data_dir)
        return django_database(url)

    def pooled_database(self) -> dict[str, Any] | None:
        """The same database through the pooler, for web processes and workers; None: there is no pooler."""
        if self.pooler == "none":
            return None
        return (
            django_database(self.database_url or "", called=self.database()["NAME"]) | self._by_transaction()
        )

    def replica_database(self) -> dict[str, Any] | None:
        """The replica, for reads of history; None: there is none. A pooler before it works as the primary's does."""
        url = self.database_replica_url
        # A short timeout: a request that waits for the replica could have asked the primary.
        return django_database(url, connect_timeout=2) | self._by_transaction() if url else None

    def _by_transaction(self) -> dict[str, Any]:
        # Django's name for it: nothing outlives a transaction, not even a cursor.
        return {"DISABLE_SERVER_SIDE_CURSORS": self.pooler == "transaction"}

    @property
    def without_redis(self) -> bool:
        """Whether rates and wake-ups go through Postgres: RabbitMQ is the broker, and no Redis is named."""
        return without_redis(redis_url=self.redis_url, broker_url=self.broker_url)

    def redis(self) -> str:
        """The URL of the Redis that beats and services share, as redis-py spells it; empty where there is no Redis."""
        return "" if self.without_redis else self.redis_url or paths.embedded_redis_url(self.data_dir)

    def broker(self) -> str:
        """The broker's URL as kombu spells it (``unix://`` becomes ``redis+socket://``)."""
        url = self.broker_url or self.redis()
        scheme, _, rest = url.partition("://")
        return f"redis+socket://{rest.replace('?db=', '?virtual_host=')}" if scheme == "unix" else url

    def key(self) -> str:
        """The secret key: the given one, or (embedded mode only) one made once and kept in the data directory."""
        return self.secret_key or paths.secret_key(self.data_dir)

    def sealing_keys(self) -> tuple[bytes, ...]:
        """Keys that seal secrets: the given keys, the first of which seals, then one derived from the secret key.

        The derived key seals until keys are given. After that it still opens the secrets that it sealed.
        """
        return (*encryption_keys(self.encryption_keys or ""), self._derived(b"carillon secrets"))

    def signing_keys(self) -> tuple[bytes, ...]:
        """Keys that sign the audit trail: the first key signs, every key verifies; the derived key comes last."""
        return (*encryption_keys(self.trail_keys or ""), self._derived(b"carillon trail"))

    def _derived(self, purpose: bytes) -> bytes:
        derivation = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose)
        return derivation.derive(self.key().encode())

    def hosts(self) -> list[str]:
        return list(self.allowed_hosts or LOOPBACK_HOSTS)


def without_redis(*, redis_url: str | None, broker_url: str | None) -> bool:
    """Whether an installation with these URLs needs no Redis, not even the embedded one."""
    return not redis_url and urlsplit(broker_url or "").scheme in AMQP_SCHEMES


def load() -> tuple[Platform, EngineSettings]:
    """Read and check the whole environment.

    Raises ``ImproperlyConfigured``, which lists every bad setting and how to correct it.
    """
    problems: list[str] = []
    platform = _checked(Platform, problems)
    engine = _checked(EngineSettings, problems)
    if isinstance(platform, Platform) and not platform.embedded_database:
        if platform.secret_key is None:
            problems.append("SECRET_KEY: is required with DATABASE_URL, such as 50 random characters")
        if not platform.allowed_hosts:
            problems.append("ALLOWED_HOSTS: is required with DATABASE_URL; e.g. carillon.example.org")
    if isinstance(platform, Platform):
        problems += platform.pooler_problems()
        problems += platform.sign_in_problems()
    if isinstance(engine, EngineSettings) and engine.archive_url.startswith("s3:") and not find_spec("s3fs"):
        problems.append(
            "CARILLON_ARCHIVE_URL: a bucket needs s3fs, which is not installed; "
            "pip install --require-hashes -r requirements/archive.txt"
        )
    problems += tracing.problems(os.environ)
    if problems:
        raise ImproperlyConfigured("Bad settings, none was applied:\n  " + "\n  ".join(problems))
    return cast(Platform, platform), cast(EngineSettings, engine)


def _checked(kind: type[S], problems: list[str]) -> S | None:
    try:
        return kind()
    except ValidationError as error:
        prefix = kind.model_config.get("env_prefix", "")
        for item in error.errors():
            where = item["loc"][0] if item["loc"] else ""
            name = str(where) if str(where).isupper() else f"{prefix}{where}".upper()
            message = _range(kind, str(where), item["type"]) or item["msg"].removeprefix("Value error, ")
            # Keys and URLs hold secrets: they are never echoed.
            given = "" if name.endswith(("_KEY", "_KEYS", "_URL", "_SECRET")) else f" (got {item['input']!r})"
            problems.append(f"{name}: {message}{given}" if where else message)
        return None


def _range(kind: type[BaseSettings], name: str, fault: str) -> str | None:
    """A message with both bounds, for a number outside them; None for other faults."""
    field = kind.model_fields.get(name)
    if field is None or fault not in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        return None
    bounds = {type(rule).__name__: rule for rule in field.metadata}
    match bounds:
        case {"Ge": low, "Le": high}:
            return f"must be from {low.ge:,} to {high.le:,}"
        case {"Gt": low, "Le": high}:
            return f"must be over {low.gt:,} and at most {high.le:,}"
    return None
