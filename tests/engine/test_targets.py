"""Rules for targets, applied by beats that already run: without a restart, and after at most one turn of each."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from jobs.actions import targets
from jobs.models import Installation, Trigger
from tests.engine.conftest import Beat, Broker
from tests.factories import make_job, make_triggers, row

pytestmark = pytest.mark.django_db(transaction=True)
PAUSE = {"paused": True, "reason": "It is down."}


class Beats:
    """Two beats that both dispatch, over triggers that call one host."""

    def __init__(self, make_beat: Callable[..., Beat], broker: Broker) -> None:
        self._beats = [make_beat(leader_election=False) for _ in range(2)]
        self._broker = broker
        self.host = f"{uuid4()}.example"

    def make_calling(self, number: int) -> list[Trigger]:
        return make_triggers(make_job(target=self.host), number)

    def turns(self) -> set[Any]:
        """The triggers that both beats queue in some turns."""
        for _ in range(3):
            for beat in self._beats:
                beat.step()
        queued = {token.id for token in self._broker.tokens}
        self._broker.messages.clear()
        return queued

    def set(self, **changes: Any) -> None:
        targets.change_target(pattern=self.host, changes=changes)


@pytest.fixture
def beats(make_beat: Callable[..., Beat], broker: Broker) -> Beats:
    beats = Beats(make_beat, broker)
    assert beats.turns() == set()
    return beats


def ids(triggers: list[Trigger]) -> set[Any]:
    return {trigger.id for trigger in triggers}


class TestBeats:
    def test_pause_and_resume_a_target_without_a_restart(self, beats: Beats) -> None:
        beats.set(**PAUSE)
        waiting = beats.make_calling(5)
        assert beats.turns() == set()
        assert {row(each)["attempt_count"] for each in waiting} == {0}
        beats.set(paused=False)
        assert beats.turns() == ids(waiting)

    def test_go_by_another_cap_and_never_beyond_it(self, beats: Beats) -> None:
        beats.set(max_in_flight=3)
        waiting = beats.make_calling(8)
        first = beats.turns()
        assert len(first) == 3
        beats.set(max_in_flight=5)
        second = beats.turns()
        assert len(second) == 2
        Trigger.objects.filter(id__in=first | second).update(state="succeeded")
        third = beats.turns()
        assert len(third) == 3
        assert first | second | third == ids(waiting)

    def test_let_go_at_once_what_waits_for_a_rate_that_is_lifted(self, beats: Beats) -> None:
        beats.set(rate_per_second=0.001)
        waiting = beats.make_calling(6)
        before = beats.turns()
        assert len(before) <= 2  # at most one by each beat itself
        beats.set(rate_per_second=None)
        assert before | beats.turns() == ids(waiting)
        assert Installation.objects.get().targets_changed == []
