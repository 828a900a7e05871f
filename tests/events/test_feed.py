"""Reading the feed: in order, without a gap though transactions commit out of order, and the tenant's own."""

import json
from typing import Any

import pytest
from django.db import transaction

from jobs.api.events import stream as streams
from jobs.conf import engine_settings
from jobs.engine.pull.offers import places
from jobs.store import events
from tests.factories import make_job, make_tenant, make_trigger
from tests.interfaces.api.caller import Caller, faulty_fields, noop_job
from tests.races.conftest import Rival

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def owner(db: None, job_types: None) -> Caller:
    return Caller(make_tenant())


def read(caller: Caller, after: str = "", **query: Any) -> dict[str, Any]:
    given = "&".join(f"{name}={value}" for name, value in ({"after": after} | query).items() if value)
    response = caller.get(f"/events?{given}")
    assert response.status_code == 200, response.content
    return response.json()


class TestPages:
    def test_go_on_from_any_place_in_order(self, owner: Caller) -> None:
        ids = [owner.post("/jobs", noop_job(name=f"job-{number}")).json()["id"] for number in range(5)]
        first = read(owner, limit=2)
        second = read(owner, after=first["cursor"], limit=2)
        third = read(owner, after=second["results"][-1]["id"], limit=2)
        found = [event["job_id"] for page in (first, second, third) for event in page["results"]]
        assert found == ids
        assert [page["more"] for page in (first, second, third)] == [True, True, False]
        assert read(owner, after=third["cursor"]) == {"results": [], "cursor": third["cursor"], "more": False}
        assert read(owner, after=first["cursor"], limit=2) == second

    def test_begin_at_the_end_on_request(self, owner: Caller) -> None:
        owner.post("/jobs", noop_job())
        end = read(owner, after="latest")
        assert end["results"] == []
        job_id = owner.post("/jobs", noop_job(name="another")).json()["id"]
        assert [event["job_id"] for event in read(owner, after=end["cursor"])["results"]] == [job_id]

    def test_miss_nothing_that_commits_late(self, owner: Caller) -> None:
        tenant = owner.tenant
        rival = Rival()
        rival.do(lambda: transaction.set_autocommit(False))
        rival.do(lambda: make_job(tenant, name="slow"))
        owner.post("/jobs", noop_job(name="quick"))
        assert read(owner)["results"] == []
        rival.do(transaction.commit)
        rival.close()
        assert [event["data"]["job_name"] for event in read(owner)["results"]] == ["slow", "quick"]

    def test_show_an_outsider_nothing(self, owner: Caller) -> None:
        owner.post("/jobs", noop_job())
        place = read(owner)["results"][0]["id"]
        outsider = Caller(make_tenant())
        assert read(outsider)["results"] == read(outsider, after=place)["results"] == []

    @pytest.mark.parametrize(
        "query", ["after=7", "after=a-b", "after=-1-1", f"after={'9' * 20}-1", "limit=0", "limit=1001"]
    )
    def test_refuse_what_is_no_place(self, owner: Caller, query: str) -> None:
        assert faulty_fields(owner.get(f"/events?{query}")) == {query.split("=")[0]}


def listen(caller: Caller, **headers: str) -> Any:
    return caller.get("/events", Accept="text/event-stream", **headers)


def parts(text: str) -> list[dict[str, str]]:
    """The events of a stream, each a dict of its fields."""
    blocks = [block for block in text.split("\n\n") if block.startswith("id:")]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


class TestAStream:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(streams, "MAX_SECONDS", 0.0)

    def test_goes_on_after_the_last_event_id(self, owner: Caller) -> None:
        trigger = make_trigger(make_job(owner.tenant), "dead")
        events.note([trigger.id])
        [created, dead] = read(owner)["results"]
        response = listen(owner, **{"Last-Event-ID": created["id"]})
        assert response["Content-Type"] == "text/event-stream"
        [event] = parts(b"".join(response.streaming_content).decode())
        assert (event["id"], event["event"]) == (dead["id"], "trigger.dead")
        assert json.loads(event["data"]) == dead

    def test_begins_with_what_is_to_come(self, owner: Caller) -> None:
        owner.post("/jobs", noop_job())
        text = b"".join(listen(owner).streaming_content).decode()
        assert text.startswith("retry: ")
        assert parts(text) == []

    def test_tells_of_what_happens_while_it_lasts(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(streams, "MAX_SECONDS", 60.0)
        monkeypatch.setattr(streams, "LOOK_SECONDS", 0.01)
        response = listen(owner)
        lines = iter(response.streaming_content)
        next(lines)
        job_id = owner.post("/jobs", noop_job()).json()["id"]
        [event] = parts(next(lines).decode())
        assert json.loads(event["data"])["job_id"] == job_id
        response.close()

    def test_gives_its_place_back_however_it_ends(self, owner: Caller) -> None:
        taken = places().taken
        unread, read_out = listen(owner), listen(owner)
        assert places().taken == taken + 2
        b"".join(read_out.streaming_content)
        unread.close()
        read_out.close()
        assert places().taken == taken

    def test_is_one_of_few(self, owner: Caller) -> None:
        opened = []
        while (response := listen(owner)).status_code == 200:
            opened.append(response)
        assert response.status_code == 429
        assert response["Retry-After"]
        assert response["Content-Type"] == "application/problem+json"
        assert len(opened) == engine_settings().long_polls // 2
        opened.append(listen(Caller(make_tenant())))
        assert opened[-1].status_code == 200
        for stream in opened:
            stream.close()

    def test_refuses_what_is_no_event_id(self, owner: Caller) -> None:
        assert faulty_fields(listen(owner, **{"Last-Event-ID": "x"})) == {"Last-Event-ID"}
        assert faulty_fields(owner.get("/events", **{"Last-Event-ID": "x"})) == {"Last-Event-ID"}
        assert owner.get("/events", **{"Last-Event-ID": ""}).status_code == 200
