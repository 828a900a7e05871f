"""Which time zones a schedule may name, and loading them.

Names and rules both come from the pinned PyPI package ``tzdata``, never from the machine: the machine's copy may be
missing or years old, and two machines of a cluster must not differ. An update of the package takes effect at the next
start of a process. The list is its ``zone.tab`` (one Region/City name for each place, plus ``UTC``);
``zoneinfo.available_timezones()`` holds traps such as ``localtime`` and ``right/UTC``. A renamed city
(``Asia/Calcutta``) is taken under its present name; every other alias is refused with the name that would be right.

A zone that was accepted and has since left the database raises ``ScheduleError`` when it is loaded, so that
the scheduler can set the one job aside.
"""

import difflib
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

import tzdata

from jobs.core.errors import InvalidInput, ScheduleError

_REGIONS = frozenset(
    {
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
    }
)
_MAX_NAME_LENGTH = 64


@cache
def canonical_timezones() -> frozenset[str]:
    """Every name a schedule may carry, about 420 of them."""
    table = resources.files("tzdata.zoneinfo").joinpath("zone.tab").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines() if line and not line.startswith("#"))
    return frozenset({row[2] for row in rows} | {"UTC"})


def canonical_timezone(name: str) -> str:
    """The canonical spelling of time zone ``name``.

    ``Etc/UTC`` becomes ``UTC`` and a city's former name its present one. Raises ``InvalidInput`` under
    ``timezone`` for anything else that is not on the list, with the closest names on it.
    """
    if name in canonical_timezones():
        return name
    present = _aliases().get(name)
    if present is not None and (name == "Etc/UTC" or name.partition("/")[0] in _REGIONS):
        return present
    raise InvalidInput({"timezone": _refusal(name, present)})


@cache
def load_zone(name: str) -> ZoneInfo:
    """The rules of zone ``name``. Raises ``ScheduleError`` when the database has none."""
    if name not in _known_zones():
        raise ScheduleError(
            f"The time zone {name!r} is not in this machine's database; edit the schedule or update tzdata."
        )
    with resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=name)


def tzdata_version() -> str:
    """The release of the time zone database in use, such as ``2026a``."""
    return str(tzdata.IANA_VERSION)


@cache
def _known_zones() -> frozenset[str]:
    """Every name the database has rules for, aliases included."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


@cache
def _aliases() -> dict[str, str]:
    """Former name to canonical name, from the ``L target alias`` lines of ``tzdata.zi``."""
    source = resources.files("tzdata.zoneinfo").joinpath("tzdata.zi").read_text(encoding="utf-8")
    links = {line.split()[2]: line.split()[1] for line in source.splitlines() if line.startswith("L ")}
    resolved = {"Etc/UTC": "UTC"}
    for alias in links:
        target = alias
        # zone.tab names such as Europe/Stockholm are themselves links to a merged zone: stop at the first of
        # them.
        while target in links and target not in canonical_timezones():
            target = links[target]
        target = resolved.get(target, target)
        if target in canonical_timezones():
            resolved[alias] = target
    return resolved


def _refusal(name: str, present: str | None) -> str:
    shown = ascii(name[:_MAX_NAME_LENGTH])
    if present is not None:
        return f"{shown} is an alias; use {present}."
    likely = similar_timezones(name) if len(name) <= _MAX_NAME_LENGTH else []
    advice = f"did you mean {' or '.join(likely)}?" if likely else "use a name such as Europe/Berlin, or UTC."
    return f"{shown} is not a time zone Carillon accepts; {advice}"


def similar_timezones(name: str) -> list[str]:
    """Up to three canonical names that look like ``name``, whole or by their city; case does not matter."""
    spellings: dict[str, str] = {}
    for zone in sorted(canonical_timezones()):
        spellings.setdefault(zone.rpartition("/")[2].casefold(), zone)
        spellings[zone.casefold()] = zone
    wanted = name.strip().casefold().replace(" ", "_")
    if wanted in spellings:
        return [spellings[wanted]]
    close = difflib.get_close_matches(wanted, spellings, n=3, cutoff=0.75)
    return list(dict.fromkeys(spellings[spelling] for spelling in close))
