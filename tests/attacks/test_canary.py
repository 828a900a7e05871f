"""Canaries in place of every secret: after all deeds none is in anything that Carillon keeps, logs, sends or shows.

The controls: with the hiding off, the same search finds canaries in each place that the hiding keeps clean. It also
finds each canary, in each encoding, in each place where one is planted by hand.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path

import pytest
from celery.worker.consumer import consumer as complaints
from django.db import DatabaseError, connection

from jobs import broker, tasks
from jobs.engine.notices import notify
from jobs.engine.worker import batch
from jobs.engine.worker.process import THIS
from jobs.handlers import AsyncRunner
from jobs.handlers.egress import EgressRules
from scheduler_project.database import base
from tests.attacks.canaries import ENCODINGS, Hit, Logs, hits, in_redis, told
from tests.attacks.deeds import DEEDS
from tests.attacks.deeds.requests import fail_to_log_in
from tests.attacks.deeds.targets import AnyPath
from tests.attacks.deeds.world import PAYLOAD, World
from tests.engine.conftest import Perform
from tests.handlers.conftest import LOOPBACK, Receiver
from tests.interfaces.api.caller import noop_job

SERVERS_LOG = "Postgres' log"
#: Places that hiding keeps clean: with it off a canary is found there.
OPENED = {
    *("log, console", "log, json", SERVERS_LOG, "Flower", "Redis, broadcast", "answers", "console"),
    *("django_celery_results_taskresult.result", "django_celery_results_taskresult.traceback"),
    *(
        "jobs_attempt.error_message",
        "jobs_attempt.response_excerpt",
        "jobs_attempt.output",
        "jobs_event.data",
        "jobs_trigger.payload",
    ),
}
#: Places that no secret reaches in the first place.
PLANTED = {"Redis", "Redis, queued", "answers to another tenant", "error answers", "jobs_change.name"}
#: Places of a payload, and of the words of its tenant's own handlers and targets about it: the tenant may read these.
ITS_OWN = {
    "jobs_job.payload": "it is the payload",
    "jobs_trigger.payload": "it is a firing's own payload",
    "jobs_attempt.error_message": "the words of the tenant's handler or target",
    "jobs_attempt.traceback": "likewise",
    "jobs_attempt.response_excerpt": "likewise",
    "jobs_attempt.output": "likewise",
    "jobs_event.data": "the error message of an attempt, for the tenant",
    "console": "operators read jobs and attempts",
    "answers": "its tenant reads its jobs and attempts",
}


@pytest.fixture
def make_world(
    perform: Perform, receiver: Receiver, tmp_path: Path, no_tries: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., World]]:
    runner = AsyncRunner(rules=EgressRules(allow_networks=LOOPBACK))
    monkeypatch.setattr(THIS, "runner", runner)
    receiver.answers = AnyPath()
    made: list[World] = []

    def make() -> World:
        notify()  # stands at the feed's end from here on
        made.append(World(receiver=receiver, perform=perform, logs=Logs(tmp_path)))
        return made[-1]

    yield make
    for world in made:
        world.logs.close()
        world.ears.close()
        world.redis.delete("jobs.webhook")
    runner.close()


def unexpected(found: Iterable[Hit]) -> list[Hit]:
    return [hit for hit in found if not (hit.canary == PAYLOAD and hit.place in ITS_OWN)]


@pytest.mark.django_db(transaction=True)
class TestACanary:
    def test_is_found_nowhere_whatever_is_done(self, make_world: Callable[..., World]) -> None:
        world = make_world()
        for deed in DEEDS:
            world.do(deed)
        places = world.places()
        assert told(unexpected(hits(places, world.canaries))) == ""
        # The search covered the places where it might have been: none of these is empty, and rows and lines of ours are
        # in them.
        assert len(places) > 140
        assert [place for place in OPENED if place not in places] == []
        assert [place for place in OPENED | PLANTED if not places[place] and place != SERVERS_LOG] == []
        assert {hit.place for hit in hits(places, {PAYLOAD: world.canaries[PAYLOAD]})} > {
            "jobs_job.payload",
            "answers",
        }

    def test_is_found_where_nothing_is_hidden(
        self, make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The control: each function that hides is switched off."""
        world = make_world()
        monkeypatch.setattr(batch, "hide", lambda outcome, _: outcome)
        monkeypatch.setattr(base, "words_of", lambda error: error.args)
        for module in (tasks, broker):
            monkeypatch.setattr(module, "shape_of", repr)
        monkeypatch.setattr(logging.getLogger(complaints.__name__), "filters", [])
        if world.server.is_ours:
            connection.cursor().execute(
                "SET log_error_verbosity = default; SET log_min_error_statement = error"
            )
        for deed in DEEDS:
            world.do(deed)
        world.logs.show_locals()
        fail_to_log_in(world)
        places = world.places()
        found = unexpected(hits(places, world.canaries))
        assert {hit.place for hit in found} >= {place for place in OPENED if places[place]}
        assert {hit.canary for hit in found} >= {name for name in world.canaries if "key" not in name} - {
            "a signing secret"
        }

    def test_is_found_wherever_it_is_planted(self, make_world: Callable[..., World]) -> None:
        """The control of the search: each canary, in each encoding, in places where no switch of ours would put it."""
        world = make_world()
        encoded = [encode(value) for value in world.canaries.values() for encode in ENCODINGS.values()]
        world.redis.rpush("jobs.webhook", *encoded)
        world.queued = [in_redis(world.redis)]
        for value in world.canaries.values():
            for caller, status in ((world.caller, 201), (world.outsider, 201), (world.outsider, 409)):
                assert world.ask(caller, "POST", "/jobs", noop_job(name=value)).status_code == status
        found = hits(world.places(), world.canaries)
        everywhere = set(product(world.canaries, ENCODINGS))
        assert {(hit.canary, hit.encoding) for hit in found if hit.place == "Redis"} == everywhere
        for place in PLANTED:
            assert {hit.canary for hit in found if hit.place == place} == set(world.canaries), place


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT %s::int",
        "SELECT %s::json",
        "SELECT %s::timestamptz",
        "SELECT * FROM (SELECT %s) AS a WHERE nothing = 1",
        "INSERT INTO auth_group (id, name) VALUES (1, %s), (2, %s)",
        "INSERT INTO auth_group (id, name) VALUES (1, %s || NULL)",
    ],
)
def test_an_error_of_the_database_tells_no_value(statement: str) -> None:
    value = '{"a": "c4nary\n"}'
    with pytest.raises(DatabaseError) as caught, connection.cursor() as cursor:
        cursor.execute(statement, [value] * statement.count("%s"))
    said = [str(error) for error in (caught.value, caught.value.__cause__)]
    assert [text for text in said if not text or "c4nary" in text] == []
    diag = caught.value.__cause__.diag  # type: ignore[union-attr]
    hidden = (diag.message_primary, diag.message_detail, diag.context, statement)
    assert any(part and ("c4nary" in part or "%s" in part) for part in hidden), "the control"
