"""A backlog after an outage: the job that fires soonest goes on first, regardless of earlier passes."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from jobs.engine.firing import order as module
from jobs.engine.firing.materializer import materialize
from jobs.engine.firing.order import CatchUpOrder
from jobs.models import CatchUp, Job, Trigger
from jobs.store import jobs as jobs_store
from tests import factories
from tests.factories import ANYONE, HOUR, MINUTE, SECOND, make_job

pytestmark = pytest.mark.django_db
Clock = Callable[[timedelta], None]
DAY = 24 * HOUR


def away_since(last: datetime, **columns: object) -> Job:
    """A job whose first missed firing was at ``last``, a minute after it was created."""
    return make_job(**({"created_at": last - MINUTE, "next_fire_at": last} | columns))


@pytest.fixture
def burst() -> list[Job]:
    """Jobs that are all nine days late, in the order in which they fire next. The first fires in five seconds."""
    now = factories.now().replace(microsecond=0)
    left = now - 9 * DAY
    minutely = [away_since(left + (5 + 10 * k) * SECOND) for k in range(6)]
    hourly = away_since(left + 50 * MINUTE, interval=HOUR)
    soon = now + 12 * SECOND
    cron = away_since(
        soon - 9 * DAY,
        schedule_type="cron",
        interval=None,
        cron_dialect="quartz",
        cron_expression=f"{soon.second} * * * * ?",
    )
    over = away_since(left - HOUR, schedule_type="once", interval=None, run_at=left - HOUR)
    return [minutely[0], cron, *minutely[1:], hourly, over]


def pass_over(limit: int, order: CatchUpOrder) -> set[object]:
    """The jobs that a pass takes. The pass leaves them with a next firing ahead, or with none."""
    before = {job.id: job.next_fire_at for job in Job.objects.all()}
    materialize(leadership=ANYONE, look_ahead=MINUTE, limit=limit, order=order)
    return {job.id for job in Job.objects.all() if job.next_fire_at != before[job.id]}


class TestABurst:
    def test_goes_on_in_the_order_of_its_next_firings(self, burst: list[Job]) -> None:
        order = CatchUpOrder()
        taken = [pass_over(2, order) for _ in range(5)]
        assert taken == [{job.id for job in burst[k : k + 2]} for k in range(0, 9, 2)]
        assert pass_over(2, order) == set()
        assert CatchUp.objects.count() == 8

    def test_says_that_more_wait_until_all_have_gone_on(self, burst: list[Job]) -> None:
        order = CatchUpOrder()
        took = [materialize(leadership=ANYONE, look_ahead=MINUTE, limit=4, order=order) for _ in range(4)]
        assert took == [4, 4, 1, 0]

    def test_counts_what_has_just_fallen_due_as_urgent(self, burst: list[Job], clock: Clock) -> None:
        # It fell due within the last second, and counts as just fallen due for another one.
        clock(5 * SECOND)
        assert pass_over(1, CatchUpOrder()) == {burst[0].id}

    def test_lets_in_who_came_meanwhile(self, burst: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "BURST", 3)
        fresh = make_job(schedule_type="immediate", interval=None, next_fire_at=factories.now())
        assert pass_over(1, CatchUpOrder()) == {fresh.id}

    def test_of_which_another_beat_was_faster_is_taken_anew(self, burst: list[Job]) -> None:
        mine, others = CatchUpOrder(), CatchUpOrder()
        assert pass_over(2, mine)
        assert len(mine) == 7
        assert pass_over(9, others)
        late = make_job(next_fire_at=factories.now() + 30 * SECOND)
        assert pass_over(2, mine) == {late.id}
        assert len(mine) == 0

    def test_hides_no_job_whose_schedule_is_broken(self, burst: list[Job]) -> None:
        Job.objects.filter(id=burst[1].id).update(cron_expression="no cron")
        order = CatchUpOrder()
        for _ in range(5):
            materialize(leadership=ANYONE, look_ahead=MINUTE, limit=2, order=order)
        assert Job.objects.get(status="paused").id == burst[1].id
        assert not Job.objects.filter(status="active", next_fire_at__lte=factories.now()).exists()

    def test_is_none_while_all_are_on_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for second in range(4):
            make_job(next_fire_at=factories.now() - second * SECOND)

        def refuse(**_: object) -> None:
            raise AssertionError("nobody is late")

        monkeypatch.setattr(jobs_store, "peek_due", refuse)
        order = CatchUpOrder()
        assert [
            materialize(leadership=ANYONE, look_ahead=MINUTE, limit=2, order=order) for _ in range(3)
        ] == [
            2,
            2,
            0,
        ]
        assert Trigger.objects.count() == 4 + 4
