"""kill -9 of leaders and of workers under load, judged from outside by the receiver's log (DESIGN §2, 1-4 and 11)."""

import random
import time

import pytest

from stage.waiting import wait_until
from tests.cluster.kills import JOBS, Schedule, assert_doubled_within_lost, judge, kill_leaders, kill_workers
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster


class TestKill:
    def test_delivers_every_firing_through_the_death_of_leaders_and_workers(
        self, slow_receiver: Receiver, rng: random.Random
    ) -> None:
        with Stage(beats=2, workers=2) as stage:
            schedule = Schedule(stage, slow_receiver)
            wait_until(lambda: len(slow_receiver.deliveries) > JOBS, timeout=30, what="the load to flow")

            kill_leaders(stage, rng)
            calm = time.time()
            deliveries, doubled = judge(schedule, slow_receiver, stage, horizon=calm)
            late = max(delivery.late_seconds for delivery in deliveries)
            print(f"leaders: {len(deliveries)} firings, {len(doubled)} doubled, at most {late:.1f} s late")
            assert not doubled
            assert late <= 15

            kill_workers(stage, rng)
            deliveries, doubled = judge(schedule, slow_receiver, stage, horizon=time.time())
            late = max(delivery.late_seconds for delivery in deliveries)
            print(f"workers: {len(deliveries)} firings, {len(doubled)} doubled, at most {late:.1f} s late")
            assert_doubled_within_lost(stage, slow_receiver, doubled)
            print(stage.manage("audit_firings"))
        assert stage.exit_status == 0
