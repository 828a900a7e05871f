"""Whether spans are recorded: OpenTelemetry's own variables, checked at start with all others (docs/traces.md)."""

from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
REQUIREMENTS = "requirements/otel.txt"
#: The protocol that the exporter of ``REQUIREMENTS`` speaks.
PROTOCOL = "http/protobuf"
_RATIOS = ("traceidratio", "parentbased_traceidratio")
_SAMPLERS = ("always_on", "always_off", "parentbased_always_on", "parentbased_always_off", *_RATIOS)


def is_on(environment: Mapping[str, str]) -> bool:
    """Whether the environment names a collector, and does not switch OpenTelemetry off."""
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return bool(environment.get(ENDPOINT)) and not is_disabled


def problems(environment: Mapping[str, str]) -> list[str]:
    """The faults of the environment, each with its correction. There are none while no spans are recorded."""
    if not is_on(environment):
        return []
    found = []
    if not _is_url(environment[ENDPOINT]):
        found.append(f"{ENDPOINT}: must look like http://collector:4318")
    if not _is_installed():
        found.append(
            f"{ENDPOINT}: traces need OpenTelemetry, which is not installed; pip install -r {REQUIREMENTS}, or "
            "leave the setting out"
        )
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if environment.get(name) not in (None, "", PROTOCOL):
            found.append(f"{name}: must be {PROTOCOL}, or left out (got {environment[name]!r})")
    return found + _of_sampler(environment)


def _of_sampler(environment: Mapping[str, str]) -> list[str]:
    sampler = environment.get("OTEL_TRACES_SAMPLER", "")
    if not sampler:
        return []
    if sampler.lower() not in _SAMPLERS:
        return [f"OTEL_TRACES_SAMPLER: must be one of {', '.join(_SAMPLERS)} (got {sampler!r})"]
    ratio = environment.get("OTEL_TRACES_SAMPLER_ARG", "")
    if sampler.lower() in _RATIOS and not _is_ratio(ratio):
        return [f"OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1, such as 0.1 (got {ratio!r})"]
    return []


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_ratio(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _is_installed() -> bool:
    try:
        return all(
            find_spec(name) for name in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
        )
    except ModuleNotFoundError:
        return False
