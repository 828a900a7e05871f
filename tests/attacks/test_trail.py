"""An attacker with the database wants to change the audit trail, or make it forget: each attempt is reported.

Controls: the untouched trail verifies; so does one whose checkpoints are signed again by the holder of the key.
"""

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from jobs.models import Change, TrailCheckpoint, TrailHead
from jobs.store import trail
from jobs.store.trail import chain
from tenants.actions import update_tenant
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)
YEAR = timedelta(days=365)


#: The tampering, and a part of the finding.
TAMPERING = [
    (
        "UPDATE jobs_change SET actor = 'somebody else' WHERE id = (SELECT min(id) FROM jobs_change)",
        "changed",
    ),
    ("UPDATE jobs_change SET changes = '{}' WHERE id = (SELECT max(id) FROM jobs_change)", "changed"),
    ("UPDATE jobs_change SET at = at + interval '1 us'", "changed"),
    ("DELETE FROM jobs_change WHERE id = (SELECT max(id) FROM jobs_change)", "some were removed"),
    ("TRUNCATE jobs_change", "some were removed"),
    (
        "INSERT INTO jobs_change (xid, at, kind, object_id, name, action, actor_kind, actor, changes) "
        "SELECT xid, at, kind, '7', name, action, actor_kind, 'mallory', changes FROM jobs_change LIMIT 1",
        "some were added",
    ),
    ("DELETE FROM jobs_trailcheckpoint WHERE number = 3", "3 to 3, the last, were removed"),
    ("DELETE FROM jobs_trailcheckpoint WHERE number = 2", "2 to 2 were removed"),
    ("DELETE FROM jobs_trailcheckpoint WHERE number = 1", "1 to 1 were removed within retention"),
    ("DELETE FROM jobs_trailcheckpoint", "1 to 3, the last, were removed"),
    ("TRUNCATE jobs_trailcheckpoint, jobs_trailhead", "nothing is signed"),
    ("UPDATE jobs_trailcheckpoint SET digest = repeat('0', 64) WHERE number = 2", "its seal does not fit"),
    ("UPDATE jobs_trailcheckpoint SET last_at = last_at - interval '9 years'", "its seal does not fit"),
    ("UPDATE jobs_trailcheckpoint SET key_id = 'ffffffff' WHERE number = 1", "is not in CARILLON_TRAIL_KEYS"),
    ("UPDATE jobs_trailhead SET number = 2", "the head was changed"),
]


def sql(statement: str, *parameters: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else None


def found(**options: Any) -> list[str]:
    return chain.verify(**{"retention": YEAR} | options).findings


@pytest.fixture
def signed() -> Callable[[], None]:
    """Three checkpoints of some changes each; a call makes one more."""
    tenant = factories.make_tenant()

    def once() -> None:
        for weight in (3, 5):
            update_tenant(tenant=tenant, weight=weight)
        assert chain.sign() >= 2

    for _ in range(3):
        once()
    return once


class TestControl:
    def test_what_nobody_touched_verifies(self, signed: Callable[[], None]) -> None:
        report = chain.verify(retention=YEAR)
        assert report.findings == []
        assert (report.first, report.last, report.changes) == (1, 3, Change.objects.count())
        assert chain.sign() == 0  # nothing new
        out = StringIO()
        call_command("verify_trail", stdout=out)
        assert f"last: 3:{report.seal}" in out.getvalue()
        assert found(anchor=(3, report.seal)) == []

    def test_a_checkpoint_takes_whole_transactions_and_none_that_is_open(self) -> None:
        tenant = factories.make_tenant()
        chain.sign()
        with psycopg.connect(
            **connection.get_connection_params()
        ) as other:  # one transaction of three changes
            for weight in (2, 3, 4):
                other.execute("UPDATE tenants_tenant SET weight = %s WHERE id = %s", [weight, tenant.id])
            update_tenant(tenant=factories.make_tenant(), weight=7)  # begun later, over sooner
            assert chain.sign() == 0
        assert [chain.sign(limit=2) for _ in range(3)] == [3, 2, 0]
        assert found() == []


class TestTampering:
    def test_is_told_of(self, signed: Callable[[], None]) -> None:
        for statement, told in TAMPERING:
            with transaction.atomic():
                assert found() == []
                sql(statement)
                assert any(told in line for line in found()), (statement, found())
                with pytest.raises(SystemExit):
                    call_command("verify_trail", stdout=StringIO())
                transaction.set_rollback(True)
        assert found() == []

    def test_with_the_last_checkpoint_removed_and_its_head_put_back_is_stopped_by_the_next(
        self, signed: Callable[[], None]
    ) -> None:
        """The head is put back as it was saved earlier, but not the checkpoint of the same number."""
        [head] = TrailHead.objects.values()
        signed()
        sql("DELETE FROM jobs_trailhead")
        TrailHead.objects.create(**head)
        assert any("put back to checkpoint 3" in line for line in found())
        with pytest.raises(IntegrityError):
            signed()

    def test_with_everything_put_back_is_told_by_an_anchor(self, signed: Callable[[], None]) -> None:
        [head], changes = TrailHead.objects.values(), Change.objects.count()
        signed()
        seal = chain.verify(retention=YEAR).seal
        sql("DELETE FROM jobs_trailcheckpoint WHERE number = 4")
        sql("DELETE FROM jobs_change WHERE id IN (SELECT id FROM jobs_change ORDER BY id OFFSET %s)", changes)
        sql("DELETE FROM jobs_trailhead")
        TrailHead.objects.create(**head)
        assert found() == []  # an earlier state is consistent in itself
        assert found(anchor=(4, seal[:12])) == ["checkpoint 4, the anchor, is not there"]
        assert found(anchor=(3, "0" * 12)) == ["checkpoint 3 has another seal than the anchor's"]

    def test_nobody_without_the_key_signs_it_again(self, signed: Callable[[], None], settings: Any) -> None:
        ours = settings.TRAIL_KEYS
        settings.TRAIL_KEYS = (b"m" * 32,)
        with pytest.raises(chain.Broken):
            signed()
        with pytest.raises(chain.Broken):
            chain.begin_anew()
        settings.TRAIL_KEYS = (b"n" * 32, *ours)  # a new key signs, the old one verifies
        signed()
        assert found() == []

    def test_what_nobody_signs_is_told_of(
        self, signed: Callable[[], None], clock: Callable[[timedelta], None]
    ) -> None:
        update_tenant(tenant=factories.make_tenant(), weight=2)
        assert found() == []  # it is of this minute
        clock(timedelta(minutes=11))
        assert "not signed: does a beat run?" in found()[0]


class TestRetention:
    def test_leaves_a_signed_stub_and_drops_the_older_ones(
        self, signed: Callable[[], None], clock: Callable[[timedelta], None]
    ) -> None:
        old = Change.objects.count()
        clock(timedelta(days=200))
        update_tenant(tenant=factories.make_tenant(), weight=2)
        chain.sign()
        clock(timedelta(days=400))
        assert trail.purge(retention=YEAR, limit=3) == 3  # in part
        assert found() == []
        assert trail.purge(retention=YEAR, limit=1000) == old - 3
        trail.purge(retention=YEAR, limit=1000)
        assert [*TrailCheckpoint.objects.order_by("number").values_list("number", flat=True)] == [3, 4]
        report = chain.verify(retention=YEAR)
        assert (report.findings, report.stubs) == ([], 1)
        assert Change.objects.count() > 0
        assert any(
            "removed" in line for line in found(retention=3 * YEAR)
        )  # control: one within a longer retention

    def test_keeps_what_nobody_signed(self, clock: Callable[[timedelta], None]) -> None:
        factories.make_tenant()
        clock(timedelta(days=400))
        assert trail.purge(retention=YEAR, limit=1000) == 0

    def test_keeps_what_is_younger_than_the_owners_floor(
        self, signed: Callable[[], None], clock: Callable[[timedelta], None]
    ) -> None:
        floor = (
            "CREATE OR REPLACE FUNCTION carillon_trail_floor() RETURNS interval LANGUAGE sql IMMUTABLE BEGIN ATOMIC "
            "SELECT interval '{}'; END"
        )
        sql(floor.format("400 days"))
        try:
            clock(timedelta(days=4000))  # the clock of the caller's session
            assert trail.purge(retention=timedelta(0), limit=1000) == 0
        finally:
            sql(floor.format("0"))
        assert trail.purge(retention=timedelta(0), limit=1000) > 0  # control

    def test_after_a_restore_a_new_chain_goes_on_from_the_old_one(self, signed: Callable[[], None]) -> None:
        sql("UPDATE jobs_change SET xid = pg_current_xact_id()")
        assert found() != []
        call_command("verify_trail", "--begin-anew", stdout=StringIO())
        assert found() == []
        assert chain.sign() == Change.objects.count()
        report = chain.verify(retention=YEAR)
        assert (report.findings, report.first) == ([], 4)
        assert report.notes == ["checkpoint 4 starts again, after a restore"]
