"""A beat whose database is away, frozen, or no longer the primary."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from jobs.engine import cycle as module
from jobs.models import Lease
from jobs.store.dispatch import queues as dispatch_queues
from stage.waiting import wait_until
from tests import factories
from tests.engine.conftest import Beat, Broker
from tests.factories import SECOND, make_trigger


def alive(other: Any, pid: int) -> bool:
    """Whether a backend of the database is there, as another connection sees it."""
    with other.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid])
        return cursor.fetchone() is not None


@pytest.mark.django_db(transaction=True)
class TestDatabaseAway:
    def test_ends_the_turn_and_the_next_one_starts_afresh(self, beat: Beat, broker: Broker) -> None:
        beat.turn()
        trigger = make_trigger()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            [pid] = cursor.fetchone()
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        other.close()
        assert beat.turn() == module.AWAY_SECONDS
        Lease.objects.update(expires_at=factories.now() - SECOND)
        beat.turn()
        assert [token.id for token in broker.tokens] == [trigger.id]

    def test_takes_a_transaction_ended_for_idling_for_a_server_away(
        self, beat: Beat, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """This happens after the whole server was frozen: Postgres says 25P03, which is no OperationalError."""
        trigger = make_trigger()
        lock, other = dispatch_queues.lock, connection.copy()

        def idle(*arguments: Any) -> Any:
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '1ms'")
            pid = connection.connection.info.backend_pid
            wait_until(lambda: not alive(other, pid), timeout=30, what="the end of the idle transaction")
            return lock(*arguments)

        monkeypatch.setattr(dispatch_queues, "lock", idle)
        assert beat.turn() == module.AWAY_SECONDS
        monkeypatch.undo()
        other.close()
        Lease.objects.update(expires_at=factories.now() - SECOND)
        beat.turn()
        assert [token.id for token in broker.tokens] == [trigger.id]

    def test_waits_for_a_standby_to_be_promoted(self, beat: Beat, broker: Broker) -> None:
        """Until its promotion the standby answers, but takes no writes."""
        trigger = make_trigger()
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")
        assert beat.turn() == module.AWAY_SECONDS
        beat.turn()
        assert [token.id for token in broker.tokens] == [trigger.id]

    def test_bounds_how_long_a_frozen_beat_keeps_tenants_locked(self, beat: Beat) -> None:
        connection.close()
        beat.turn()
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == ("5s",)
        connection.close()

    def test_close_hands_the_lease_over_and_may_be_repeated(self, make_beat: Callable[..., Beat]) -> None:
        first, second = make_beat(), make_beat()
        first.turn()
        first.cycle.close()
        first.cycle.close()
        second.turn()
        assert Lease.objects.get().term == 2
        second.cycle.close()
