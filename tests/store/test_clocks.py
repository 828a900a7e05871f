"""A process's clock against the database's: measured, kept, and reported once when it is too far off."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jobs.models import Clock
from jobs.store.insight import clocks
from jobs.store.insight.clocks import Asking, Drift, Reading
from tests import factories
from tests.factories import MINUTE

pytestmark = pytest.mark.django_db


class FakeClock:
    """The database's clock, ``ahead`` seconds ahead."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead

    def __call__(self) -> float:
        return factories.now().timestamp() + self.ahead


def measure(drift: Drift, *, times: int = 1) -> None:
    for _ in range(times):
        drift._due_at = 0.0
        drift.measure_if_due()


def said(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record.msg for record in caplog.records if "clock drift" in str(record.msg)]


class TestDrift:
    @pytest.mark.parametrize("ahead", [300.0, -3600.0, 0.0])
    def test_is_measured_with_its_sign_and_its_doubt(self, ahead: float) -> None:
        drift = Drift(name="w1", clock=FakeClock(ahead))
        measure(drift)
        assert drift.reading is not None
        # The fake asks the database itself. That happens outside of the round trip that is subtracted.
        assert drift.reading.offset_seconds == pytest.approx(ahead, abs=0.5)
        assert 0 < drift.reading.within_seconds < 1

    def test_takes_half_of_the_round_trip_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ticks = iter([10.0, 14.0])
        monkeypatch.setattr(clocks.time, "monotonic", lambda: next(ticks))
        moment = factories.utc(2026, 1, 1)
        with Asking(clock=lambda: moment.timestamp() - 2) as asking:
            pass
        assert asking.reading(moment) == Reading(0.0, 2.0)

    def test_is_on_record_for_people_as_long_as_it_is_measured(
        self, clock: Callable[[timedelta], None]
    ) -> None:
        near, far = Drift(name="near", clock=FakeClock()), Drift(name="far", clock=FakeClock(-5))
        for drift in (near, far):
            measure(drift, times=2)
        assert [row.name for row in clocks.present()] == ["far", "near"]
        assert clocks.present()[0].offset_seconds == pytest.approx(-5, abs=0.5)
        clock(2 * MINUTE)
        assert clocks.present() == []
        clock(timedelta(days=2))
        measure(near)
        assert [row.name for row in Clock.objects.all()] == ["near"]

    def test_is_warned_about_once_for_each_time_it_goes_too_far(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        machine = FakeClock()
        drift = Drift(name="w1", clock=machine)
        with caplog.at_level("INFO", "carillon"):
            for machine.ahead in (0.0, 2.0, 2.0, -300.0, 0.0, 0.0, -2.0, -2.0):
                measure(drift)
        lines = said(caplog)
        assert [(line["level"], line["event"]) for line in lines] == [
            ("warning", "clock drift"),
            ("info", "clock drift is over"),
            ("warning", "clock drift"),
        ]
        assert lines[0]["process"] == "w1"
        assert lines[0]["offset_seconds"] == pytest.approx(2, abs=0.5)

    def test_is_not_read_into_a_slow_answer(self, caplog: pytest.LogCaptureFixture) -> None:
        drift = Drift(name="w1")
        with caplog.at_level("INFO", "carillon"):
            drift.note(Reading(offset_seconds=3.0, within_seconds=2.5))
        assert said(caplog) == []

    def test_is_measured_now_and_then(self) -> None:
        drift = Drift(name="w1", clock=FakeClock())
        for _ in range(10):
            drift.measure_if_due()
        [row] = clocks.present()
        first = row.measured_at
        drift.measure_if_due()
        assert clocks.present()[0].measured_at == first
