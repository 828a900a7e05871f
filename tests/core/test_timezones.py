"""Names of time zones that are taken, and the suggestion in a refusal."""

import re
import zoneinfo
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from jobs.core.errors import InvalidInput, ScheduleError
from jobs.core.timezones import canonical_timezone, canonical_timezones, load_zone, tzdata_version

REFUSED = [
    ("localtime", "use a name such as"),
    ("Factory", "use a name such as"),
    ("posixrules", "use a name such as"),
    ("posix/Europe/Berlin", "Europe/Berlin"),
    ("right/UTC", "UTC"),
    ("SystemV/EST5EDT", "use a name such as"),
    ("US/Eastern", "use America/New_York"),
    ("GB", "use Europe/London"),
    ("Zulu", "use UTC"),
    ("Etc/GMT+5", "is not a time zone"),
    ("EST", "America/Panama"),
    ("europe/berlin", "did you mean Europe/Berlin"),
    ("Berlin", "did you mean Europe/Berlin"),
    ("Asia/Kolkatta", "did you mean Asia/Kolkata"),
    ("New York", "did you mean America/New_York"),
    ("UTC ", "did you mean UTC"),
    ("+02:00", "use a name such as"),
    ("", "use a name such as"),
    ("../etc/passwd", "is not a time zone"),
    ("/etc/localtime", "is not a time zone"),
    ("Europe/Berlin\x00", "is not a time zone"),
    ("Europe/../Europe/Berlin", "is not a time zone"),
    ("\ud800", "is not a time zone"),
    ("x" * 100_000, "use a name such as"),
]


class TestCanonicalTimezone:
    @pytest.mark.parametrize(("name", "advice"), REFUSED, ids=lambda text: ascii(text[:24]))
    def test_refuses_with_a_name_that_would_be_right(self, name, advice):
        with pytest.raises(InvalidInput) as refusal:
            canonical_timezone(name)
        (message,) = refusal.value.errors["timezone"]
        assert advice in message
        assert len(message) < 300
        message.encode()

    @pytest.mark.parametrize(
        ("name", "canonical"),
        [
            ("UTC", "UTC"),
            ("Etc/UTC", "UTC"),
            ("Asia/Kolkata", "Asia/Kolkata"),
            ("Asia/Calcutta", "Asia/Kolkata"),
            ("Europe/Kiev", "Europe/Kyiv"),
            ("America/Buenos_Aires", "America/Argentina/Buenos_Aires"),
            ("Europe/Stockholm", "Europe/Stockholm"),
        ],
    )
    def test_gives_the_present_name(self, name, canonical):
        assert canonical_timezone(name) == canonical

    def test_of_every_alias_has_the_same_rules_as_what_it_becomes(self):
        summer, winter = datetime(2030, 7, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
        for alias in ("Asia/Calcutta", "America/Buenos_Aires", "Australia/ACT", "Atlantic/Faeroe"):
            for instant in (summer, winter):
                assert instant.astimezone(ZoneInfo(alias)).utcoffset() == (
                    instant.astimezone(load_zone(canonical_timezone(alias))).utcoffset()
                )


class TestLoadZone:
    def test_knows_every_canonical_name(self):
        assert len(canonical_timezones()) > 400
        assert all(load_zone(name).key == name for name in canonical_timezones())

    @pytest.mark.parametrize("name", ["Atlantis/Capital", "../etc/passwd", "", "Europe"])
    def test_raises_schedule_error_for_a_zone_that_is_gone(self, name):
        with pytest.raises(ScheduleError):
            load_zone(name)

    def test_asks_the_pinned_package_whatever_the_machine_has(self):
        zoneinfo.reset_tzpath(["/nowhere"])
        try:
            load_zone.cache_clear()
            assert load_zone("Europe/Berlin").key == "Europe/Berlin"
        finally:
            zoneinfo.reset_tzpath()


class TestTzdataVersion:
    def test_is_the_release_in_use(self):
        assert re.fullmatch("20[0-9]{2}[a-z]", tzdata_version())
