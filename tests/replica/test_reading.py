"""What is read from a real replica, and when the primary is read instead."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import InternalError, connection, connections

from jobs.models import Trigger
from jobs.store import db
from jobs.store import replica as history
from jobs.store.db.routing import REPLICA, on_replica
from jobs.store.replica.watch import WATCH
from stage.waiting import wait_until
from tests import factories
from tests.interfaces.api.caller import Caller
from tests.replica.server import Replica

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
AS_OF = "Carillon-As-Of"


@pytest.fixture
def caller(transactional_db: None, job_types: None) -> Caller:
    return Caller(factories.make_tenant(), scopes=("read", "write", "admin"))


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


class TestListsOfHistory:
    def test_are_read_from_the_replica_and_say_as_of_when(self, caller: Caller, replica: Replica) -> None:
        trigger = factories.make_trigger(factories.make_job(caller.tenant), "succeeded")
        replica.catch_up()
        WATCH.look()
        replica.pause()
        try:
            factories.make_trigger(trigger.job, "succeeded")
            answer = caller.get("/triggers")
            print(dict(answer.headers), Trigger.objects.db, connections.settings["replica"]["NAME"])
            with on_replica(): print(Trigger.objects.all().db, len(Trigger.objects.all()))
            assert names(answer) == [str(trigger.id)]
            assert answer.headers[AS_OF].endswith("Z")
        finally:
            replica.resume()
