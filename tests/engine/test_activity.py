"""Activity: counted in memory, reported once a second, and added up by the leader."""

import os
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models import Sum

from jobs.activity import Activity, activity, count, note_time, own
from jobs.core.activity import BOUNDS, DURATION_BUCKETS, KINDS, LAG_BUCKETS, label_of, tenants_to_name, timed
from jobs.engine import activity as engine_activity
from jobs.engine.activity import ActivityWriter
from jobs.engine.housekeeper import Housekeeper
from jobs.models import ActivityMinute, ActivityReport, ActivityTotal, MetricTenant, OwnTotal
from jobs.store import db
from jobs.store.insight import activity as activity_store
from stage.waiting import wait_until
from tests import factories
from tests.activity_records import add_up, on_record, record
from tests.factories import HOUR, make_job, make_trigger

pytestmark = pytest.mark.django_db(transaction=True)
NOOP = (7, "noop")


@pytest.fixture(autouse=True)
def counted_by_this_test() -> None:
    activity.forget()
    own.forget()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_activity, "EVERY_SECONDS", 0.01)


@pytest.fixture
def writer(hasty: None) -> Iterator[ActivityWriter]:
    found = ActivityWriter()
    found.start()
    yield found
    found.stop()


def elsewhere() -> psycopg.Connection[Any]:
    of = connection.settings_dict
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return psycopg.connect(**{name: of[key] for name, key in named.items() if of[key]})


class TestKinds:
    def test_are_the_columns_of_each_table_and_statement(self) -> None:
        for table in ("jobs_activityminute", "jobs_activityhour", "jobs_activitytotal"):
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {table} LIMIT 0")
                columns = [column.name for column in cursor.description]
            assert [name for name in columns if name in KINDS] == list(KINDS)

    def test_are_all_added_to_minute_and_totals_however_often(self) -> None:
        for _ in range(2):
            record({NOOP: {kind: nth for nth, kind in enumerate(KINDS, 1)}})
        twice = {kind: 2 * nth for nth, kind in enumerate(KINDS, 1)}
        assert on_record() == {NOOP: twice}
        assert on_record(ActivityTotal) == {(0, "noop"): twice}

    @pytest.mark.parametrize(
        ("seconds", "bucket"),
        [(-5.0, 0), (0.0, 0), (0.001, 0), (0.0011, 1), (1.0, 9), (1.5, 10), (3600.0, 19), (90_000.0, 20)],
    )
    def test_of_a_time_are_its_bucket_and_its_part_of_the_sum(self, seconds: float, bucket: int) -> None:
        assert dict(timed((seconds,), "lag_us")) == {
            LAG_BUCKETS[bucket]: 1,
            "lag_us": round(max(0.0, seconds) * 1_000_000),
        }
        assert len(LAG_BUCKETS) == len(DURATION_BUCKETS) == len(BOUNDS) + 1

    def test_of_many_times_are_how_many_each_bucket_has_and_their_sum(self) -> None:
        assert dict(timed((0.5, -1.0, 0.3, 90_000.0), "lag_us")) == {
            "lag_0": 1,
            "lag_8": 2,
            "lag_20": 1,
            "lag_us": 90_000_800_000,
        }


class TestTotals:
    def test_are_of_named_tenants_and_of_all_others_together(self) -> None:
        MetricTenant.objects.create(tenant_id=7, named_at=factories.now())
        record({NOOP: {"started": 1}, (8, "noop"): {"started": 2}, (9, "noop"): {"started": 4}})
        assert on_record(ActivityTotal) == {NOOP: {"started": 1}, (0, "noop"): {"started": 6}}

    def test_are_of_all_tenants_too(self) -> None:
        MetricTenant.objects.create(tenant_id=7, named_at=factories.now())
        record({NOOP: {"started": 1}, (8, "noop"): {"started": 2}, (9, "a@9"): {"started": 4}})
        of_all = ActivityTotal.objects.filter(tenant_id=-1)
        assert dict(of_all.values_list("job_type", "started")) == {"noop": 3, label_of("a@9"): 4}

    def test_of_all_tenants_are_by_the_minute_too(self) -> None:
        for _ in range(2):
            record({NOOP: {"started": 1}, (8, "noop"): {"started": 2}, (9, "a@9"): {"retried": 4}})
        of_all = ActivityMinute.objects.filter(tenant_id=-1)
        sums = {
            key: of_all.filter(job_type=key).aggregate(n=Sum("started"), r=Sum("retried"))
            for key in ("noop", label_of("a@9"))
        }
        assert sums == {"noop": {"n": 6, "r": None}, label_of("a@9"): {"n": None, "r": 8}}

    def test_know_the_types_that_tenants_declare_as_one(self) -> None:
        record({(8, "a@8"): {"started": 1}, (8, "b@8"): {"started": 2}, (9, "a@9"): {"started": 4}})
        assert on_record(ActivityTotal) == {(0, label_of("a@8")): {"started": 7}}
        assert len(on_record()) == 3


class TestTenantsToName:
    def test_are_the_busiest_ones(self) -> None:
        assert tenants_to_name({}, {1: 5, 2: 9, 3: 7}, places=2) == {2, 3}

    def test_stay_until_another_is_twice_as_active(self) -> None:
        assert tenants_to_name({1: 5, 2: 9}, {2: 9, 3: 10, 1: 5}, places=2) == {1, 2}
        assert tenants_to_name({1: 5, 2: 9}, {3: 11, 2: 9, 1: 5}, places=2) == {2, 3}

    def test_are_no_more_than_there_are_places(self) -> None:
        assert tenants_to_name({1: 5, 2: 9}, {2: 9, 1: 5}, places=1) == {2}
        assert tenants_to_name({1: 5}, {1: 5, 2: 99}, places=0) == set()


class TestCounting:
    def test_waits_for_the_commit(self) -> None:
        trigger = make_trigger(make_job(), "queued")
        with transaction.atomic():
            factories.claim(trigger)
            assert activity.take() == {}
        [counts] = activity.take().values()
        assert counts["started"] == 1

    def test_knows_nothing_of_what_was_rolled_back(self) -> None:
        trigger = make_trigger(make_job(), "queued")
        with transaction.atomic():
            factories.claim(trigger)
            transaction.set_rollback(True)
        assert activity.take() == {}

    def test_is_bounded_and_says_what_it_dropped(self, caplog: pytest.LogCaptureFixture) -> None:
        small = Activity(max_rows=2)
        for tenant_id in (1, 2, 3, 3, 1):
            small.add((tenant_id, "noop"), "started")
        ActivityWriter(small).turn()
        assert on_record() == {(1, "noop"): {"started": 2}, (2, "noop"): {"started": 1}}
        assert "counts dropped" in caplog.text
        assert small.take_dropped() == 0

    def test_puts_times_into_buckets_when_they_are_taken_or_are_many(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobs.activity.MAX_TIMES", 3)
        counted = Activity(max_rows=1)
        for _ in range(3):
            counted.add_all((), ((NOOP, "lag_us", (0.5, 3.0)), ((8, "noop"), "lag_us", (1.0,))))
        assert counted.take() == {NOOP: {"lag_8": 3, "lag_11": 3, "lag_us": 10_500_000}}
        assert counted.take_dropped() == 3
        assert counted.take() == {}

    def test_loses_nothing_among_threads(self) -> None:
        counted = Activity()

        def count() -> None:
            for _ in range(2_000):
                counted.add(NOOP, "started")

        threads = [threading.Thread(target=count) for _ in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            counted.give_back(counted.take())
        assert counted.take() == {NOOP: {"started": 16_000}}

    def test_begins_anew_in_a_forked_process_even_if_another_thread_held_the_lock(self) -> None:
        activity.add(NOOP, "started")
        reading, writing = os.pipe()
        with activity._lock:
            child = os.fork()
            if child == 0:
                os.write(writing, str(len(activity.take())).encode())
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(reading, 10) == b"0"
        assert activity.take() == {NOOP: {"started": 1}}


class TestWhatAProcessTellsOfItself:
    def test_is_added_up_over_processes_and_turns(self) -> None:
        writer = ActivityWriter()
        for _ in range(2):
            count("lease_renewals", times=3)
            count("step_failures", "reap")
            note_time("step_seconds", "reap", seconds=0.02)
            writer.turn()
        add_up()
        found = {(row.name, *row.labels, row.kind): row.count for row in OwnTotal.objects.all()}
        assert found == {
            ("lease_renewals", "times"): 6,
            ("step_failures", "reap", "times"): 2,
            ("step_seconds", "reap", "us"): 40_000,
            ("step_seconds", "reap", "le_4"): 2,
        }

    def test_is_kept_while_it_cannot_be_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise db.StatementFailed("no room")

        monkeypatch.setattr(activity_store, "report", refuse)
        writer = ActivityWriter()
        activity.add(NOOP, "started")
        count("lease_renewals")
        writer.turn()
        writer.turn()
        assert activity.take() == {NOOP: {"started": 1}}
        assert own.take() == {("lease_renewals", ()): {"times": 1}}


class TestWriter:
    def test_writes_what_was_counted(self, writer: ActivityWriter) -> None:
        activity.add(NOOP, "started", 3)
        wait_until(lambda: on_record() == {NOOP: {"started": 3}})
        activity.add(NOOP, "started", 4)
        wait_until(lambda: on_record() == {NOOP: {"started": 7}})

    def test_writes_the_rest_when_it_stops(self) -> None:
        writer = ActivityWriter()
        writer.start()
        activity.add(NOOP, "started")
        writer.stop()
        writer.stop()
        assert on_record() == {NOOP: {"started": 1}}

    def test_keeps_what_cannot_be_written_and_says_so_once(
        self, hasty: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        failures = []
        mended = threading.Event()
        report = activity_store.report

        def fail(rows: Any, own_rows: Any) -> None:
            if mended.is_set():
                report(rows, own_rows)
                return
            failures.append(dict(rows))
            raise db.StatementFailed("no room") if len(failures) % 2 else RuntimeError("a fault of ours")

        monkeypatch.setattr(activity_store, "report", fail)
        writer = ActivityWriter()
        writer.start()
        activity.add(NOOP, "started", 3)
        wait_until(lambda: len(failures) > 3)
        activity.add((8, "noop"), "started")
        mended.set()
        wait_until(lambda: on_record() == {NOOP: {"started": 3}, (8, "noop"): {"started": 1}})
        wait_until(lambda: "counts not written: over" in caplog.text)
        assert caplog.text.count("counts not written'") + caplog.text.count("counts not written ") <= 1
        writer.stop()

    def test_keeps_only_the_batches_that_are_not_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(activity_store, "BATCH", 1)
        rows = {
            (1, "noop"): {"started": 1},
            (2, "noop"): {"started": object()},
            (3, "noop"): {"started": 1},
        }
        with pytest.raises(TypeError):
            activity_store.report(rows, {})  # type: ignore[arg-type]
        assert list(rows) == [(2, "noop"), (3, "noop")]
        assert on_record() == {(1, "noop"): {"started": 1}}

    def test_waits_for_nobody(self, writer: ActivityWriter) -> None:
        record({NOOP: {"started": 1}})
        with elsewhere() as holder:
            for table in ("activitytotal", "activityminute"):
                holder.execute(f"SELECT FROM jobs_{table} FOR UPDATE")
            activity.add(NOOP, "started")
            wait_until(ActivityReport.objects.exists)
        assert on_record(ActivityTotal) == {(0, "noop"): {"started": 2}}

    def test_gives_its_connection_up_when_nothing_happens(
        self, monkeypatch: pytest.MonkeyPatch, writer: ActivityWriter
    ) -> None:
        closed = threading.Event()
        disconnect = db.disconnect

        def give_up() -> None:
            disconnect()
            closed.set()

        monkeypatch.setattr(engine_activity, "IDLE_SECONDS", 0.05)
        monkeypatch.setattr(db, "disconnect", give_up)
        assert closed.wait(30)
        activity.add(NOOP, "started")
        wait_until(lambda: on_record() == {NOOP: {"started": 1}})


class TestAddingUp:
    def test_takes_each_report_once_however_many_processes_do_it(self) -> None:
        keys = [(tenant_id, kind) for tenant_id in range(1, 40) for kind in ("noop", "webhook")]
        errors: list[BaseException] = []

        def report_and_add_up(order: int) -> None:
            try:
                for _ in range(20):
                    record({key: {"started": 1} for key in keys[::order]})
            except BaseException as error:  # noqa: BLE001
                errors.append(error)
            finally:
                connection.close()

        threads = [threading.Thread(target=report_and_add_up, args=(order,)) for order in (1, -1, 1, -1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert {sum(counts.values()) for counts in on_record().values()} == {80}

    def test_takes_some_reports_at_a_time_the_oldest_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(activity_store, "FOLDED", 3)
        for _ in range(3):
            activity_store.report({NOOP: {"started": 1}, (8, "noop"): {"started": 1}}, {})
        assert activity_store.fold()
        assert ActivityReport.objects.count() == 1
        assert not activity_store.fold()
        assert on_record() == {NOOP: {"started": 3}, (8, "noop"): {"started": 3}}

    def test_waits_for_no_row_that_another_holds_and_keeps_the_reports(self) -> None:
        record({NOOP: {"started": 1}})
        activity_store.report({NOOP: {"started": 1}}, {})
        db.bound(statements=timedelta(seconds=5))
        with elsewhere() as holder:
            holder.execute("SELECT FROM jobs_activitytotal FOR UPDATE")
            with pytest.raises(db.StatementFailed):
                activity_store.fold()
            assert ActivityReport.objects.exists()
        assert on_record(ActivityTotal) == {(0, "noop"): {"started": 2}}

    def test_keeps_the_minute_of_the_report(self, clock: Callable[[timedelta], None]) -> None:
        activity_store.report({NOOP: {"started": 1}}, {})
        [reported] = ActivityReport.objects.values_list("minute", flat=True)
        clock(HOUR)
        add_up()
        assert set(ActivityMinute.objects.values_list("minute", flat=True)) == {reported}

    def test_is_the_housekeepers(self) -> None:
        activity_store.report({NOOP: {"started": 1}}, {})
        Housekeeper(retention=90 * 24 * HOUR, trail_retention=90 * 24 * HOUR).keep()
        assert not ActivityReport.objects.exists()
        assert on_record() == {NOOP: {"started": 1}}
