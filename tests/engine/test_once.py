"""``ctx.once``: an effect on a database is made once, whichever execution of its firing makes it, and however many."""

import asyncio
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from jobs.core.errors import CarillonError
from jobs.handlers import Context
from jobs.models import Effect, Trigger
from jobs.store import effects, purge
from jobs.store.effects import NoTransaction
from stage.waiting import wait_until
from tenants.models import Tenant
from tests import factories
from tests.engine.conftest import Perform, queued
from tests.factories import attempts, state_of

pytestmark = pytest.mark.django_db(transaction=True)
Register = Callable[..., str]
Make = Callable[[Context, bool], Any]
RAISE_WEIGHT = "UPDATE tenants_tenant SET weight = weight + 1 WHERE slug = %s"
HANDLERS_DOC = Path(__file__).resolve().parents[2] / "docs" / "handlers.md"


def parameters() -> dict[str, Any]:
    of = connection.settings_dict
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return {name: of[key] for name, key in named.items() if of[key]}


def by_orm(ctx: Context, fails: bool) -> bool:
    with transaction.atomic():
        if first := ctx.once("raise"):
            tenant = Tenant.objects.get(slug=ctx.tenant)
            tenant.weight += 1
            tenant.save()
        if fails:
            raise RuntimeError
    return first


def by_psycopg(ctx: Context, fails: bool) -> bool:
    with psycopg.connect(**parameters(), row_factory=psycopg.rows.dict_row) as conn:
        if first := ctx.once("raise", conn):
            conn.execute(RAISE_WEIGHT, [ctx.tenant])
        if fails:
            raise RuntimeError
    return first


def by_psycopg_with_autocommit(ctx: Context, fails: bool) -> bool:
    with psycopg.connect(**parameters(), autocommit=True) as conn, conn.transaction():
        if first := ctx.once("raise", conn):
            conn.execute(RAISE_WEIGHT, [ctx.tenant])
        if fails:
            raise RuntimeError
    return first


async def by_async_psycopg(ctx: Context, fails: bool) -> bool:
    async with await psycopg.AsyncConnection.connect(**parameters()) as conn:
        if first := await ctx.aonce("raise", conn):
            await conn.execute(RAISE_WEIGHT, [ctx.tenant])
        if fails:
            raise RuntimeError
    return first


WAYS = pytest.mark.parametrize(
    "make", [by_orm, by_psycopg, by_psycopg_with_autocommit, by_async_psycopg], ids=lambda way: way.__name__
)


@pytest.fixture
def fire(perform: Perform, handler: Register) -> Callable[..., Trigger]:
    """``fire(make, fails=…)``: a trigger whose handler makes the effect; ``again`` runs an earlier trigger again."""

    def run(make: Make, *, fails: bool = False, again: Trigger | None = None) -> Trigger:
        def work(ctx: Context, payload: dict[str, Any]) -> Any:
            return make(ctx, fails)

        async def work_async(ctx: Context, payload: dict[str, Any]) -> Any:
            return await make(ctx, fails)

        name = handler(work_async if asyncio.iscoroutinefunction(make) else work)
        trigger = again or queued(name, delivery="exactly_once")
        if again:
            Trigger.objects.filter(id=again.id).update(
                state="queued", fence=again.fence + 1, job_type=name, queued_at=factories.now()
            )
            trigger.refresh_from_db()
        run.summary = perform(trigger)  # type: ignore[attr-defined]
        return trigger

    return run


def weight(trigger: Trigger) -> int:
    return Tenant.objects.get(id=trigger.tenant_id).weight


class TestOnce:
    @WAYS
    def test_makes_the_effect_in_one_execution_of_several(self, fire: Any, make: Make) -> None:
        trigger = fire(make)
        before = Tenant(slug="x").weight
        assert (weight(trigger), fire.summary) == (before + 1, {"succeeded": 1})
        for _ in range(2):
            fire(make, again=trigger)
            assert fire.summary == {"succeeded": 1, "duplicates_prevented": 1}
        assert weight(trigger) == before + 1
        [effect] = Effect.objects.all()
        assert (effect.trigger_id, effect.key, effect.fence, effect.duplicates) == (trigger.id, "raise", 1, 2)
        assert effects.duplicates_prevented(trigger.id) == 2

    @WAYS
    def test_leaves_no_record_of_an_effect_that_was_rolled_back(self, fire: Any, make: Make) -> None:
        trigger = fire(make, fails=True)
        assert (state_of(trigger)[0], Effect.objects.count()) == ("retrying", 0)
        fire(make, again=trigger)
        assert (weight(trigger), fire.summary) == (Tenant(slug="x").weight + 1, {"succeeded": 1})

    def test_survives_a_failure_after_the_effect(self, fire: Any) -> None:
        def fails_later(ctx: Context, fails: bool) -> None:
            by_orm(ctx, False)
            if ctx.attempt_number == 1:
                raise RuntimeError

        trigger = fire(fails_later)
        assert state_of(trigger) == ("retrying", "")
        fire(fails_later, again=trigger)
        assert (state_of(trigger), weight(trigger)) == (("succeeded", ""), Tenant(slug="x").weight + 1)

    def test_tells_keys_and_triggers_apart(self, fire: Any) -> None:
        def two(ctx: Context, fails: bool) -> list[bool]:
            with transaction.atomic():
                return [ctx.once("a"), ctx.once("b"), ctx.once("a")]

        for _ in range(2):
            assert factories.row(fire(two))["result"] == [True, True, False]

    @pytest.mark.parametrize("using", [None, "psycopg"])
    def test_refuses_to_record_outside_of_a_transaction(self, fire: Any, using: str | None) -> None:
        def careless(ctx: Context, fails: bool) -> None:
            if not using:
                ctx.once("raise")
                return
            with psycopg.connect(**parameters(), autocommit=True) as conn:
                ctx.once("raise", conn)

        trigger = fire(careless)
        [attempt] = attempts(trigger)
        assert attempt.error_class.endswith(NoTransaction.__name__)
        assert Effect.objects.count() == 0

    @pytest.mark.parametrize("key", ["", "k" * 201, "a\0b", 7], ids=repr)
    def test_refuses_a_key_that_is_none(self, fire: Any, key: Any) -> None:
        trigger = fire(lambda ctx, fails: ctx.once(key))
        assert attempts(trigger)[0].error_class.endswith("InvalidInput")

    @pytest.mark.parametrize(("ends_by", "answer"), [("commit", False), ("rollback", True)])
    def test_waits_for_another_execution_at_the_same_effect(self, ends_by: str, answer: bool) -> None:
        trigger = factories.make_trigger()
        answers: list[bool] = []

        def second() -> None:
            with psycopg.connect(**parameters()) as conn:
                answers.append(effects.record(trigger_id=trigger.id, fence=2, key="raise", using=conn))

        with psycopg.connect(**parameters()) as first:
            assert effects.record(trigger_id=trigger.id, fence=1, key="raise", using=first)
            other = threading.Thread(target=second)
            other.start()
            wait_until(lambda: waiting_for_locks() == 1)
            assert answers == []
            getattr(first, ends_by)()
            other.join(10)
        assert answers == [answer]

    def test_works_in_another_database_with_the_table_of_the_documents(self) -> None:
        [table] = re.findall(r"CREATE TABLE jobs_effect \(.+?\);", HANDLERS_DOC.read_text(), re.DOTALL)
        with psycopg.connect(**parameters()) as conn:
            conn.execute("CREATE SCHEMA elsewhere")
            conn.execute("SET search_path = elsewhere")
            conn.execute(table)
            ids = {"trigger_id": factories.new_id(), "fence": 1}
            assert [effects.record(**ids, key="raise", using=conn) for _ in range(2)] == [True, False]
            assert conn.execute("SELECT duplicates FROM elsewhere.jobs_effect").fetchall() == [(1,)]
            conn.rollback()

    def test_is_true_for_whoever_tries_a_handler_without_an_engine(self) -> None:
        fields = dict.fromkeys(
            ("tenant", "job_id", "job_name", "trigger_id", "attempt_id", "scheduled_for", "attempt_number")
        )
        ctx = Context(**fields, idempotency_key="k", fence=1, deadline=None)  # type: ignore[arg-type]
        assert ctx.once("raise")
        assert issubclass(NoTransaction, CarillonError)


def waiting_for_locks() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


class TestPurge:
    def test_drops_the_records_of_triggers_that_are_gone(self, clock: Any) -> None:
        gone, kept, unfinished = (
            factories.make_trigger(state=s) for s in ("succeeded", "pending", "running")
        )
        for trigger in (gone, kept, unfinished):
            for key in ("a", "b"):
                with transaction.atomic():
                    effects.record(trigger_id=trigger.id, fence=1, key=key)
        clock(100 * 24 * factories.HOUR)
        retention = 90 * 24 * factories.HOUR
        assert purge.effects(retention=retention, limit=10) == 0
        assert purge.triggers(retention=retention, limit=10) == 1
        assert purge.effects(retention=retention, limit=10) == 2
        assert set(Effect.objects.values_list("trigger_id", flat=True)) == {kept.id, unfinished.id}

    def test_keeps_what_a_replay_may_find(self, fire: Any) -> None:
        trigger = fire(by_orm)
        assert purge.effects(retention=factories.HOUR, limit=10) == 0
        fire(by_orm, again=trigger)
        assert fire.summary == {"succeeded": 1, "duplicates_prevented": 1}
