"""With ``message`` and ``celery_task`` a tenant may write to queues of its own, and reach nothing else.

Each attack has its control: the same write past the rule does its harm.
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery, current_app
from redis import Redis

from jobs.actions.definition import check_payload
from jobs.conf import engine_settings
from jobs.core.errors import InvalidInput
from jobs.engine import worker
from jobs.explain import explain_trigger
from jobs.handlers import registry, run_sync
from jobs.handlers.builtin import broker
from jobs.limits import Bucket, Buckets
from jobs.limits.over_redis import PREFIX
from jobs.store import execution
from tenants.actions import update_tenant
from tenants.models import Tenant
from tests.engine.conftest import Perform
from tests.factories import (
    LEASE,
    attempts,
    claim_token,
    make_job,
    make_tenant,
    make_trigger,
    row,
    state_of,
)
from tests.interfaces.api.caller import Caller, faulty_fields

pytestmark = pytest.mark.usefixtures("job_types")


@pytest.fixture
def project() -> Iterator[Celery]:
    """This project's own Celery application, as in a worker, on the Redis in which rates are counted too."""
    from scheduler_project.celery import app

    before = current_app._get_current_object()
    app.set_current()
    yield app
    before.set_current()


@pytest.fixture
def redis_of_all(settings: Any) -> Iterator[Redis]:
    """The Redis that limits, wake-ups, messages and tenants' queues share."""
    client = Redis.from_url(settings.REDIS_URL)
    before = set(client.scan_iter())
    yield client
    if made := set(client.scan_iter()) - before:
        client.delete(*made)
    client.close()


def put_past_the_rules(project: Celery, queue: str, body: object = "x") -> None:
    """Write as a tenant could if no rule looked at the queue's name."""
    with project.producer_or_acquire() as producer:
        producer.publish(body, exchange="", routing_key=queue, serializer="json")


class TestARateLimit:
    """A queue on Redis is a list under its name. In a bucket's place it once switched off that limit and all others."""

    @pytest.fixture
    def bucket(self) -> Bucket:
        return Bucket(f"test:{uuid4()}", 0.01, 5)

    @pytest.fixture
    def buckets(self, settings: Any) -> Buckets:
        return Buckets(url=settings.REDIS_URL)

    @pytest.mark.parametrize("name", ["message", "celery_task"])
    def test_is_out_of_reach_of_every_name_a_queue_may_have(
        self,
        name: str,
        bucket: Bucket,
        buckets: Buckets,
        redis_of_all: Redis,
        project: Celery,
        make_context: Any,
    ) -> None:
        assert buckets.take(bucket, 3).granted == 3
        keys = {key.decode() for key in redis_of_all.scan_iter() if bucket.key in key.decode()}
        assert keys, "the limit is counted somewhere else: look there"
        payload = {"message": {"body": "x"}, "celery_task": {"task": "t"}}[name]
        for queue in keys | {f"throttled:v1:gcra:{bucket.key}"}:
            # A job from before the rule may hold such a name: the worker is the last to look.
            ended = run_sync(registry.get(name), make_context(), payload | {"queue": queue})
            assert ended.kind == "failed", ended
            assert "queue" in ended.error_message
        with pytest.raises(InvalidInput):
            registry.validate_payload(name, payload | {"queue": PREFIX + bucket.key})
        assert buckets.take(bucket, 9).granted == 2

    def test_would_be_reached_if_names_were_not_looked_at_but_none_would_go_uncounted(
        self, bucket: Bucket, buckets: Buckets, redis_of_all: Redis, project: Celery
    ) -> None:
        other = Bucket(f"test:{uuid4()}", 0.01, 5)
        put_past_the_rules(project, PREFIX + bucket.key)
        assert redis_of_all.type(PREFIX + bucket.key) == b"list"
        assert buckets.take(bucket, 9).granted == 0
        assert buckets.take(other, 9).granted == 5
        assert (buckets.tampered, buckets.counted_alone) == (1, 0)


PAYLOADS: dict[str, dict[str, Any]] = {"message": {"body": "x"}, "celery_task": {"task": "reports.build"}}


@pytest.mark.django_db
class TestAQueueOfSomebodyElse:
    """A queue of another tenant, of a team, or of other software on the same Redis."""

    FOREIGN = (
        "celery",
        "tenant.bravo.orders",
        "tenant.acme",
        "tenant.acme.",
        "rq:queue:default",
        "bull:mail:wait",
        "amq.x",
    )
    NEVER = (
        "jobs.webhook",
        "unacked",
        "_kombu.binding.x",
        "w@h.celery.pidbox",
        "celeryev.x",
        PREFIX + "tenant:1",
    )

    @pytest.mark.parametrize("name", PAYLOADS)
    def test_is_refused_to_whoever_writes_the_job_unless_it_was_granted(self, name: str) -> None:
        acme = make_tenant(slug="acme")

        def ask(queue: str) -> None:
            check_payload(PAYLOADS[name] | {"queue": queue}, job_type=name, tenant=acme)

        ask("tenant.acme.orders")
        for queue in self.FOREIGN:
            with pytest.raises(InvalidInput) as refused:
                ask(queue)
            assert set(refused.value.errors) == {"payload.queue"}
        # The control. A broad pattern does not reach another tenant by accident.
        acme = update_tenant(tenant=acme, queues=["celery", "bull:*:wait", "t*", "*"])
        for queue in ("celery", "bull:mail:wait", "rq:queue:default"):
            ask(queue)
        for queue in ("tenant.bravo.orders", *self.NEVER):
            with pytest.raises(InvalidInput):
                ask(queue)
        acme = update_tenant(tenant=acme, queues=["tenant.bravo.in*"])
        ask("tenant.bravo.invoices")

    def test_is_what_celery_task_would_write_to_by_default(self) -> None:
        with pytest.raises(InvalidInput) as refused:
            check_payload({"task": "reports.build"}, job_type="celery_task", tenant=make_tenant(slug="acme"))
        assert "tenant.acme." in refused.value.errors["payload.queue"][0]

    @pytest.mark.parametrize("name", PAYLOADS)
    def test_gets_nothing_of_a_job_whose_grant_has_ended(
        self, name: str, perform: Perform, project: Celery, redis_of_all: Redis
    ) -> None:
        acme = make_tenant(slug="acme", queues=["team.*"])
        job = make_job(acme, job_type=name, payload=PAYLOADS[name] | {"queue": "team.reports"})
        before, after = (make_trigger(job, "queued") for _ in range(2))
        perform(before)
        assert (state_of(before)[0], redis_of_all.llen("team.reports")) == ("succeeded", 1)
        update_tenant(tenant=acme, queues=[])
        perform(after)
        assert state_of(after) == ("dead", "permanent")
        [attempt] = attempts(after)
        assert (attempt.error_code, "payload.queue" in attempt.error_message) == ("queue_refused", True)
        assert redis_of_all.llen("team.reports") == 1


class TestAForgedTask:
    """With a task's headers, or a task in its body, a message looks like Celery's own to its consumer."""

    @pytest.mark.parametrize(
        ("forged", "field"),
        [
            ({"headers": {"task": "celery.map", "id": "1"}, "body": [[], {}, {}]}, "payload.headers"),
            ({"headers": {"Task": "x"}, "body": 1}, "payload.headers"),
            ({"headers": {"lang": "py"}, "body": 1}, "payload.headers"),
            ({"body": {"task": "celery.map", "id": "1", "args": [], "kwargs": {}}}, "payload"),
        ],
    )
    def test_is_refused_and_the_same_without_its_signs_is_not(
        self, forged: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            registry.validate_payload("message", forged | {"queue": "celery"})
        assert set(refused.value.errors) == {field}
        registry.validate_payload("message", {"queue": "celery", "headers": {"kind": "x"}, "body": {"a": 1}})
        # The consumer of a tenant's own queue is the tenant.
        registry.validate_payload("message", {"queue": "tenant.acme.q", "body": {"task": "resize"}})


@pytest.mark.django_db
class TestAForgedMessageOfCarillons:
    """A message that names a queued trigger of another type, for a handler that the tenant chooses."""

    def test_claims_nothing_and_hands_nothing_back(self, perform: Perform) -> None:
        trigger = make_trigger(make_job(job_type="webhook", payload={"url": "https://x.example/"}), "queued")
        before = row(trigger)
        assert (
            worker.perform(job_type="noop", tokens=[claim_token(trigger)], worker="w1", celery_task_id="c")
            is None
        )
        assert row(trigger) == before
        assert attempts(trigger) == []

    def test_would_make_the_trigger_the_handlers_own_if_its_type_were_named(self, perform: Perform) -> None:
        trigger = make_trigger(make_job(job_type="noop"), "queued")
        worker.perform(job_type="noop", tokens=[claim_token(trigger)], worker="w1", celery_task_id="c")
        assert state_of(trigger)[0] == "succeeded"

    def test_gives_no_pull_worker_what_is_not_of_the_types_it_asked_for(self) -> None:
        trigger = make_trigger(make_job(job_type="noop"), "queued")
        taken = execution.claim(
            tokens=[claim_token(trigger)], job_types=["mine@1"], worker="w", celery_task_id="", lease=LEASE
        )
        assert (list(taken), taken.dropped, state_of(trigger)[0]) == ([], 1, "queued")


@pytest.mark.django_db(transaction=True)
class TestATypeThatIsSwitchedOff:
    """Switched off for all tenants by a setting, or for one tenant."""

    @pytest.fixture(params=["all", "one"])
    def tenant(self, request: pytest.FixtureRequest, perform: Perform, settings: Any) -> Tenant:
        if request.param == "one":
            return make_tenant(disabled_types=["message"])
        settings.CARILLON = engine_settings().model_copy(update={"disabled_types": ("message",)})
        return make_tenant()

    def test_is_not_listed_and_no_job_may_be_of_it(self, tenant: Tenant) -> None:
        caller = Caller(tenant, scopes=("read", "write"))
        job = {
            "job_type": "message",
            "schedule": {"type": "immediate"},
            "payload": {"queue": f"tenant.{tenant.slug}.q", "body": 1},
        }
        answer = caller.post("/jobs", job)
        assert faulty_fields(answer) == {"job_type"}
        assert "switched off" in answer.json()["errors"][0]["message"]
        types = {kind["name"] for kind in caller.get("/job-types").json()["results"]}
        assert ("message" in types, "webhook" in types) == (False, True)

    def test_calls_no_handler_for_what_older_jobs_fire_and_explain_tells(
        self, tenant: Tenant, perform: Perform, project: Celery, redis_of_all: Redis
    ) -> None:
        queue = f"tenant.{tenant.slug}.q"
        job = make_job(tenant, job_type="message", payload={"queue": queue, "body": 1})
        waiting = explain_trigger(tenant=tenant, trigger_id=make_trigger(job).id)
        assert "switched off" in {gate.name: gate.detail for gate in waiting.gates}["type_cap"]
        trigger = make_trigger(job, "queued")
        perform(trigger)
        assert (state_of(trigger), attempts(trigger)[0].error_code) == (
            ("dead", "permanent"),
            "type_switched_off",
        )
        assert "type_switched_off" in explain_trigger(tenant=tenant, trigger_id=trigger.id).summary
        assert redis_of_all.llen(queue) == 0

    def test_runs_again_once_it_is_on(
        self, tenant: Tenant, perform: Perform, project: Celery, redis_of_all: Redis, settings: Any
    ) -> None:
        settings.CARILLON = engine_settings().model_copy(update={"disabled_types": ()})
        update_tenant(tenant=tenant, disabled_types=[])
        queue = f"tenant.{tenant.slug}.q"
        trigger = make_trigger(
            make_job(tenant, job_type="message", payload={"queue": queue, "body": 1}), "queued"
        )
        perform(trigger)
        assert (state_of(trigger)[0], redis_of_all.llen(queue)) == ("succeeded", 1)

    def test_must_be_one_there_is(self) -> None:
        with pytest.raises(registry.RegistrationError, match="mesage"):
            registry.load(disabled=["mesage"])


class TestAFloodOfMessages:
    """A queue without a reader grew without bound, in the memory of the broker that all share."""

    KB_60 = "x" * 60_000

    @pytest.fixture
    def send(self, project: Celery, redis_of_all: Redis, make_context: Any) -> Any:
        def send(queue: str, *, tenant: str = "acme", name: str = "message", **payload: Any) -> str:
            ended = run_sync(
                registry.get(name),
                make_context(tenant=tenant),
                PAYLOADS[name] | payload | {"queue": f"tenant.{tenant}.{queue}"},
            )
            assert not ended.permanent
            return ended.error_code

        return send

    @pytest.fixture
    def bounds(self, settings: Any) -> None:
        update = {"queue_max_messages": 5, "tenant_queue_bytes": 1_000_000}
        settings.CARILLON = engine_settings().model_copy(update=update)

    @pytest.mark.parametrize("name", PAYLOADS)
    def test_ends_at_a_queues_length_and_goes_on_as_it_is_emptied(
        self, name: str, send: Any, bounds: None, redis_of_all: Redis
    ) -> None:
        assert [send("q", name=name) for _ in range(7)] == [""] * 5 + ["queue_full"] * 2
        assert redis_of_all.llen("tenant.acme.q") == 5
        assert send("other", name=name) == ""
        redis_of_all.rpop("tenant.acme.q")
        assert [send("q", name=name) for _ in range(2)] == ["", "queue_full"]

    def test_ends_at_what_a_tenants_queues_hold_together_and_stops_no_other_tenant(
        self, send: Any, bounds: None, redis_of_all: Redis
    ) -> None:
        codes = [send(f"q{n}", body=self.KB_60) for n in range(30)]
        taken = codes.count("")
        assert 10 <= taken <= 13, codes  # as base64 each is 80 kB
        assert codes == [""] * taken + ["queue_full"] * (30 - taken)
        assert send("q", tenant="bravo", body=self.KB_60) == ""
        for n in range(taken):
            redis_of_all.delete(f"tenant.acme.q{n}")
        assert send("q", body=self.KB_60) == ""

    def test_ends_at_a_number_of_queues(self, send: Any, redis_of_all: Redis) -> None:
        codes = [send(f"q{n}") for n in range(broker.MAX_QUEUES + 2)]
        assert codes == [""] * broker.MAX_QUEUES + ["queue_full"] * 2
        assert send("q0") == ""

    def test_would_go_on_without_these_bounds(
        self, project: Celery, redis_of_all: Redis, bounds: None
    ) -> None:
        for _ in range(30):
            put_past_the_rules(project, "tenant.acme.q", self.KB_60)
        assert redis_of_all.llen("tenant.acme.q") == 30
        assert redis_of_all.memory_usage("tenant.acme.q") > 1_000_000
