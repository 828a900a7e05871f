"""The installation: leases, upkeep, the release of every process, and the settings in force. No secret is shown."""

from datetime import timedelta
from typing import Any

from django.urls import reverse
from pydantic.fields import FieldInfo

from jobs.admin.overview.rows import clock_rows
from jobs.admin.shared.cells import NOTHING, instant_text
from jobs.admin.shared.pages import InstallationPage
from jobs.conf import EngineSettings, engine_settings
from jobs.core.instants import span
from jobs.core.judgement.of_engine import DAY_SECONDS, FEED_LATE_SECONDS
from jobs.explain.wellbeing import Condition, wellbeing
from jobs.store.insight.metrics import MAX_AHEAD, MAX_OLDEST

MAX_PROCESSES = 200


class InstallationState(InstallationPage):
    title = "Installation"
    permission = "jobs.view_installation"
    template_name = "admin/installation/state.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        found = wellbeing.look()
        return super().get_context_data(
            **kwargs,
            now=instant_text(found.at),
            leases=lease_rows(found),
            leases_url=reverse("admin:jobs_lease_changelist"),
            processes=process_rows(found),
            releases=sorted({row.version for row in found.seen.clocks if row.version}),
            partitions=partition_rows(found),
            upkeep=upkeep_rows(found),
            settings=setting_rows(engine_settings()),
        )


def lease_rows(found: Condition) -> list[dict[str, Any]]:
    return [
        {
            "name": row.name,
            "holder": row.holder,
            "term": f"{row.term:,}",
            "left": _lasting(row.seconds_left) if row.seconds_left > 0 else "expired",
            "is_over": row.seconds_left <= 0,
        }
        for row in found.seen.leases
    ]


def process_rows(found: Condition) -> list[dict[str, Any]]:
    """Beats, workers and web processes that were heard of lately, with the release that each runs."""
    versions = {row.name: row.version for row in found.seen.clocks}
    return [
        row | {"release": versions[row["name"]] or "unknown"}
        for row in clock_rows(found, limit=MAX_PROCESSES)
    ]


def partition_rows(found: Condition) -> list[dict[str, Any]]:
    return [
        {"table": row.name, "ahead": _lasting(row.seconds), "is_short": row.seconds < DAY_SECONDS}
        for row in found.upkeep.partitions
    ]


def upkeep_rows(found: Condition) -> list[dict[str, Any]]:
    """The work of a leader beside dispatch: a name, how it stands, and whether that is worth a look."""
    ahead, settings, upkeep = found.upkeep.ahead, engine_settings(), found.upkeep
    late, feed = ahead.materialization_lag_seconds, upkeep.feed_lag_seconds
    past = f"{upkeep.past_retention:,}{'+' if upkeep.past_retention >= MAX_OLDEST else ''}"
    return [
        _row("Delay of the first job that waits for its next trigger", _lasting(late), is_off=late > 0),
        _row("Unfinished catch-ups and backfills", _bounded(ahead.catch_ups), is_off=False),
        _row(
            "Age of the oldest event that the notifier has not read",
            _lasting(feed),
            is_off=feed > FEED_LATE_SECONDS,
        ),
        _row(
            f"Triggers older than the retention of {settings.history_days:,} days",
            past,
            is_off=upkeep.past_retention > 0,
        ),
        _row("Retention of the audit trail", f"{settings.audit_days:,} days", is_off=False),
        _row(
            "Connections to Postgres",
            f"{upkeep.connections.used:,} of {upkeep.connections.most:,}",
            is_off=upkeep.connections.used > 0.8 * upkeep.connections.most,
        ),
    ]


def setting_rows(settings: EngineSettings) -> list[dict[str, Any]]:
    """The engine's settings by the name of their variable. Keys, addresses and passwords are not among them."""
    return [
        {
            "name": f"CARILLON_{name.upper()}",
            "value": _value(getattr(settings, name)),
            "default": _value(_default(field)),
            "is_changed": getattr(settings, name) != _default(field),
            "about": field.description or "",
        }
        for name, field in EngineSettings.model_fields.items()
    ]


def _default(field: FieldInfo) -> object:
    return field.get_default(call_default_factory=True)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return ", ".join(f"{name}={number:g}" for name, number in value.items()) or NOTHING
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or NOTHING
    return f"{value:g}" if isinstance(value, float) else str(value)


def _row(name: str, value: str, *, is_off: bool) -> dict[str, Any]:
    return {"name": name, "value": value, "is_off": is_off}


def _bounded(count: int) -> str:
    return f"{count:,}{'+' if count >= MAX_AHEAD else ''}"


def _lasting(seconds: float) -> str:
    return span(timedelta(seconds=seconds)) if seconds > 0 else NOTHING
