"""A worker's presence: a thread that reports it as present, as long as it can take messages."""

import pytest

from jobs.engine.worker import presence
from jobs.engine.worker.presence import Presence, WorkerStatus
from jobs.store.insight import clocks, workers
from stage.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def names() -> list[str]:
    return [row.name for row in workers.present()]


class TestPresence:
    def test_is_announced_at_once_and_ends_when_the_worker_leaves(self) -> None:
        there = Presence(name="w1", status=lambda: WorkerStatus(["jobs.noop"], 4))
        there.start()
        wait_until(lambda: names() == ["w1"])
        there.leave()
        there.leave()
        wait_until(lambda: names() == [])

    def test_is_not_announced_while_the_worker_cannot_take_messages(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(presence, "ANNOUNCED_SECONDS", 0.01)
        status: list[WorkerStatus | None] = [None]
        asked = []

        def stand() -> WorkerStatus | None:
            asked.append(True)
            return status[0]

        there = Presence(name="w1", status=stand)
        there.start()
        wait_until(lambda: len(asked) > 1)
        assert names() == []
        status[0] = WorkerStatus(["jobs.noop"], 4)
        wait_until(lambda: names() == ["w1"])
        there.leave()
        wait_until(lambda: names() == [])

    def test_warns_of_another_worker_of_its_name_and_lists_both(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(presence, "ANNOUNCED_SECONDS", 0.01)
        first, second = (
            Presence(name="celery@host", status=lambda queue=queue: WorkerStatus([queue], 1))
            for queue in ("jobs.webhook", "jobs.noop")
        )
        first.start()
        wait_until(lambda: names() == ["celery@host"])
        second.start()
        wait_until(lambda: len(names()) == 2)
        assert workers.shared_names(workers.present()) == ["celery@host"]
        assert {queue for row in workers.present() for queue in row.queues} == {"jobs.webhook", "jobs.noop"}
        told = wait_until(lambda: [line for line in caplog.messages if "two workers of one name" in line])
        assert all("celery@host" in line and "-n" in line for line in told)
        first.leave()
        second.leave()
        wait_until(lambda: names() == [])

    def test_takes_its_predecessor_for_no_other(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A killed worker leaves its row. Started again within half a minute, it finds that row."""
        monkeypatch.setattr(presence, "ANNOUNCED_SECONDS", 0.01)
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=1, process="7-gone")
        asked: list[bool] = []

        def stand() -> WorkerStatus:
            asked.append(True)
            return WorkerStatus(["jobs.webhook"], 1)

        there = Presence(name="w1", status=stand)
        there.start()
        wait_until(lambda: len(asked) > 5)
        assert names() == ["w1"]
        assert not [line for line in caplog.messages if "two workers of one name" in line]
        there.leave()
        wait_until(lambda: names() == [])

    def test_measures_its_machines_clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(presence, "ANNOUNCED_SECONDS", 0.01)
        there = Presence(name="w1", status=lambda: None)
        there.start()
        [row] = wait_until(clocks.present)
        assert row.name == "w1"
        assert abs(row.offset_seconds) < 1
        there.leave()

    def test_outlives_a_database_that_is_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(presence, "ANNOUNCED_SECONDS", 0.01)
        announced = []

        def announce(**_: object) -> None:
            announced.append(True)
            if len(announced) == 1:
                raise presence.db.DISCONNECTED[0]("gone")

        monkeypatch.setattr(workers, "announce", announce)
        there = Presence(name="w1", status=lambda: WorkerStatus([], 1))
        there.start()
        wait_until(lambda: len(announced) > 1)
        there.leave()
