"""How pages of tenants write values."""

from datetime import UTC, datetime


def instant(value: datetime | None) -> str:
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if value else "-"
