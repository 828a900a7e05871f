"""``X-Request-ID``: one name for a call, in its answer and in all lines that are logged because of it."""

import logging
import re
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from django.test import Client

from jobs.actions import jobs as actions
from jobs.core.errors import Crowded, Unavailable
from jobs.telemetry import current_request_id
from tests.interfaces.api.caller import Caller, noop_job
from tests.interfaces.api.test_problems import assert_problem

pytestmark = pytest.mark.django_db
Lines = Callable[[], list[dict[str, Any]]]
OURS = re.compile("[0-9a-f]{32}")
THEIRS = logging.getLogger("some.library")


class TestTheCallersName:
    @pytest.mark.parametrize(
        "name", ["a", "Root=1-67891233-abcdef012345678912345678", "x" * 128, "9.:/+=@-_"]
    )
    def test_is_taken(self, owner: Caller, name: str) -> None:
        assert owner.get("/jobs", **{"X-Request-ID": name})["X-Request-ID"] == name

    @pytest.mark.parametrize(
        "name", ["", "x" * 129, "a b", "a,b", 'a"b', "a\x1b[31m", "<script>", "é", "a\u2028b", "{}", "a%0ab"]
    )
    def test_gives_way_to_ours_where_it_is_unsound(self, owner: Caller, name: str) -> None:
        given = owner.get("/jobs", **{"X-Request-ID": name})["X-Request-ID"]
        assert OURS.fullmatch(given), given


class TestEveryAnswer:
    @pytest.mark.parametrize("path", ["/livez", "/admin/login/", "/nowhere", "/api/nowhere", "/api/v1/jobs"])
    def test_has_a_name_of_its_own(self, path: str) -> None:
        names = [Client().get(path)["X-Request-ID"] for _ in range(2)]
        assert names[0] != names[1]
        assert all(OURS.fullmatch(name) for name in names)

    def test_to_a_host_that_is_refused_has_one_too(self) -> None:
        problem = assert_problem(Client().get("/api/v1/jobs", HTTP_HOST="evil.example"), 400)
        assert OURS.fullmatch(problem["request_id"])


class TestAProblem:
    def test_tells_it(self, owner: Caller) -> None:
        answer = owner.post("/jobs", {}, **{"X-Request-ID": "call-7"})
        assert assert_problem(answer, 400)["request_id"] == answer["X-Request-ID"] == "call-7"

    def test_of_nothing_foreseen_tells_it_and_so_does_the_log(self, owner: Caller, lines: Lines) -> None:
        with patch.object(actions, "create_job", side_effect=RuntimeError("broken")):
            answer = owner.post("/jobs", noop_job(), **{"X-Request-ID": "call-8"})
        assert assert_problem(answer, 500)["request_id"] == "call-8"
        [line] = [line for line in lines() if line["logger"] == "django.request"]
        assert (line["level"], line["request_id"]) == ("error", "call-8")

    def test_that_django_logs_after_all_else_is_told_too(self, owner: Caller, lines: Lines) -> None:
        with patch.object(actions, "create_job", side_effect=Crowded(own=False)):
            assert_problem(owner.post("/jobs", noop_job(), **{"X-Request-ID": "call-9"}), 503)
        [line] = [line for line in lines() if line["logger"] == "django.request"]
        assert line["request_id"] == "call-9"

    def test_of_one_of_many_items_does_not(self, owner: Caller) -> None:
        [item] = owner.post("/jobs/bulk", {"jobs": [{"name": "bad"}]}).json()["results"]
        assert item["status"] == 400
        assert "request_id" not in str(item)


class TestLines:
    def test_of_a_request_name_it_whoever_writes_them(self, owner: Caller, lines: Lines) -> None:
        def create(*_: Any, **__: Any) -> None:
            THEIRS.warning("in the middle")
            raise Unavailable("away")

        with patch.object(actions, "create_job", create):
            owner.post("/jobs", noop_job(), **{"X-Request-ID": "call-1"})
        [line] = [line for line in lines() if line["event"] == "in the middle"]
        assert line["request_id"] == "call-1"

    def test_between_two_requests_name_none(self, owner: Caller, lines: Lines) -> None:
        owner.get("/jobs", **{"X-Request-ID": "call-2"})
        THEIRS.warning("between")
        [line] = [line for line in lines() if line["event"] == "between"]
        assert "request_id" not in line

    def test_of_a_stream_name_it_to_its_end(self, owner: Caller) -> None:
        stream = owner.get("/events", Accept="text/event-stream", **{"X-Request-ID": "call-3"})
        assert stream["X-Request-ID"] == "call-3"
        next(iter(stream.streaming_content))
        assert current_request_id() == "call-3"
        stream.close()
        assert current_request_id() == ""
