"""Fixtures of the engine's tests: a cycle stepped by hand, a worker without Celery, and scripted handlers."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs.conf import EngineSettings, engine_settings
from jobs.engine import dispatcher, worker
from jobs.engine.cycle import Cycle
from jobs.engine.dispatcher import Message, PublishError, QueueConfig
from jobs.engine.worker import batch, reports
from jobs.engine.worker.leases.renewer import Hold, LeaseRenewer
from jobs.engine.worker.process import THIS
from jobs.handlers import registry
from jobs.handlers.async_runner import AsyncRunner
from jobs.models import Trigger
from jobs.store.execution import ClaimToken
from tests import factories


class Broker:
    """Takes messages as a list; can be away, or fail in the middle of a publish."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.up = True
        self.breaks = False

    def ready(self) -> bool:
        return self.up

    def publish(self, messages: Sequence[Message]) -> None:
        if self.breaks:
            self.messages += messages[:1]
            raise PublishError("the wire broke")
        self.messages += messages

    @property
    def tokens(self) -> list[ClaimToken]:
        return [token for message in self.messages for token in message.tokens]


class Beat:
    """A beat stepped by hand: ``step`` makes turns until nothing more is due at once."""

    def __init__(self, broker: Broker, settings: EngineSettings) -> None:
        self.broker = broker
        self.cycle = Cycle(
            settings=settings,
            configs=lambda: {
                kind.name: QueueConfig(kind.max_in_flight, kind.batch_size, kind.is_async)
                for kind in registry.all_types()
            },
            publish=broker.publish,
            ready=broker.ready,
        )

    def turn(self) -> float:
        """One turn with nothing left out: releasing, reaping and housekeeping are not put off."""
        for name in ("queues", "targets", "reap leases", "reap messages"):
            self.cycle.steps[name].hurry()
        return self.cycle.tick()

    def step(self, *, most: int = 200) -> float:
        for _ in range(most):
            if seconds := self.turn():
                return seconds
        raise AssertionError(f"still busy after {most} turns")


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def make_beat(job_types: None, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Beat]:
    """Beats on the same broker; keywords override engine settings."""
    # A test of this value sets it: on a busy machine messages would be larger.
    monkeypatch.setattr(dispatcher, "BUSY_SECONDS", 3600.0)
    return lambda **overrides: Beat(broker, engine_settings().model_copy(update=overrides))


@pytest.fixture
def beat(make_beat: Callable[..., Beat]) -> Beat:
    """A beat without leader election: setting the clock must not depose it."""
    return make_beat(leader_election=False)


Perform = Callable[..., dict[str, int] | None]


@pytest.fixture
def perform(job_types: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Perform]:
    """Queue, claim and run triggers as a worker does; each test has a renewer and a runner of its own."""
    settings.CARILLON = engine_settings().model_copy(
        update={"finish_flush_ms": 10, "worker_lease_seconds": 30}
    )
    runner = AsyncRunner()
    monkeypatch.setattr(THIS, "_renewer", None)
    monkeypatch.setattr(THIS, "runner", runner)
    # A test of this value sets it.
    monkeypatch.setattr(batch, "LEAVE_AFTER_SECONDS", 60.0)
    monkeypatch.setattr(batch, "LEAVE_SUSPECT_AFTER_SECONDS", 60.0)

    def run(*triggers: Trigger) -> dict[str, int] | None:
        tokens = [factories.claim_token(trigger) for trigger in triggers]
        return worker.perform(
            job_type=triggers[0].job_type, tokens=tokens, worker="w1", celery_task_id="celery-1"
        )

    yield run
    runner.close()
    reports._notes.submit(lambda: connection.close()).result(10)
    if THIS._renewer is not None:
        close_connection_of(THIS._renewer)


def _nothing(*_: object) -> None:
    pass


@dataclass(eq=False)
class Told:
    """A batch that does nothing but call these functions when the renewer asks."""

    hold: Hold = field(default_factory=lambda: Hold({}))
    flush_if_due: Callable[[], None] = _nothing
    flush: Callable[[], None] = _nothing
    interrupt: Callable[[UUID], None] = _nothing
    rescue: Callable[[bool], None] = _nothing
    hand_back: Callable[[], None] = _nothing


def close_connection_of(renewer: LeaseRenewer) -> None:
    """The renewer's thread stays, as in a worker; its connection must not outlive the test's database."""
    closed = threading.Event()

    def close() -> None:
        connection.close()
        closed.set()

    with renewer.renewing(Told(flush_if_due=close)):
        assert closed.wait(10)


@pytest.fixture
def handler(job_types: None) -> Callable[..., str]:
    """Register a function as a job type of its own name; returns that name."""

    def register(function: Callable[..., Any], **options: Any) -> str:
        name = f"test.{function.__name__}".lower().replace("<lambda>", "anonymous")
        registry.job_type(name, **options)(function)
        return name

    return register


def queued(job_type: str, **columns: Any) -> Trigger:
    """A queued trigger of a new job; ``timeout`` and the like go to the job."""
    of_job = {
        key: columns.pop(key) for key in ("timeout", "retry_policy", "payload", "delivery") if key in columns
    }
    return factories.make_trigger(factories.make_job(job_type=job_type, **of_job), "queued", **columns)
