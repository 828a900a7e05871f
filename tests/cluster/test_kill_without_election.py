"""kill -9 of beats and of workers where every beat leads, judged as in ``test_kill``."""

import random
import time

import pytest

from stage.waiting import wait_until
from tests.cluster.kills import JOBS, Schedule, assert_doubled_within_lost, judge, kill_beats, kill_workers
from tests.cluster.receiver import Receiver
from tests.cluster.stage import Stage

pytestmark = pytest.mark.cluster


class TestKillWithoutElection:
    def test_delivers_every_firing_with_two_beats_that_both_lead(
        self, slow_receiver: Receiver, rng: random.Random
    ) -> None:
        with Stage(beats=2, workers=2, CARILLON_LEADER_ELECTION="0") as stage:
            schedule = Schedule(stage, slow_receiver)
            wait_until(lambda: len(slow_receiver.deliveries) > JOBS, timeout=30, what="the load to flow")

            kill_beats(stage, rng)
            deliveries, doubled = judge(schedule, slow_receiver, stage, horizon=time.time())
            print(f"beats: {len(deliveries)} firings, {len(doubled)} doubled")
            assert not doubled

            kill_workers(stage, rng)
            deliveries, doubled = judge(schedule, slow_receiver, stage, horizon=time.time())
            print(f"workers: {len(deliveries)} firings, {len(doubled)} doubled")
            assert_doubled_within_lost(stage, slow_receiver, doubled)
            print(stage.manage("audit_firings"))
        assert stage.exit_status == 0
