"""``Idempotency-Key``: a write that is sent twice is done once, even if others come in between or a process dies."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Lock
from typing import Any

import pytest
from django.db import OperationalError, connection
from rest_framework.response import Response

from jobs.actions import jobs as actions
from jobs.api.calls import idempotency
from jobs.api.views.base import Endpoint
from jobs.api.views.jobs import JobsView
from jobs.engine.housekeeper import Housekeeper
from jobs.models import Answer, Job, Trigger
from jobs.store import answers
from tests.factories import make_job, make_trigger
from tests.interfaces.api.caller import Caller, faulty_fields, jobs_stored, noop_job

REPLAYED = "Idempotency-Replayed"


def keyed(key: str = "k-1") -> dict[str, str]:
    return {"Idempotency-Key": key}


def told(response: Any) -> tuple[Any, ...]:
    """All parts of an answer that its caller acts on."""
    headers = ("Content-Type", "ETag", "Location", "Retry-After")
    return response.status_code, response.content, *(response.get(name) for name in headers)


class TestARepeatedWrite:
    def test_is_done_once_and_answered_alike(self, owner: Caller) -> None:
        first, second = (owner.post("/jobs", noop_job(), **keyed()) for _ in range(2))
        assert first.status_code == 201
        assert told(second) == told(first)
        assert (REPLAYED in first, second[REPLAYED]) == (False, "true")
        assert jobs_stored() == 1

    def test_may_spell_the_same_body_another_way(self, owner: Caller) -> None:
        body = noop_job()
        first = owner.post("/jobs", body, **keyed())
        again = owner.post("/jobs", dict(reversed(body.items())), **keyed('"k-1"'))
        assert told(again) == told(first)

    def test_of_any_kind_and_method_is_understood(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        runs = [owner.post(f"/jobs/{job.id}/run", **keyed("run")) for _ in range(2)]
        assert told(runs[0]) == told(runs[1])
        assert Trigger.objects.count() == 1
        patches = [owner.patch(f"/jobs/{job.id}", {"priority": "low"}, **keyed("patch")) for _ in range(2)]
        assert told(patches[0]) == told(patches[1])
        deletions = [owner.delete(f"/jobs/{job.id}", **keyed("delete")) for _ in range(2)]
        assert [told(deletion)[:3] for deletion in deletions] == [(204, b"", None)] * 2
        assert owner.delete(f"/jobs/{job.id}").status_code == 404

    def test_that_was_refused_is_refused_alike(self, owner: Caller) -> None:
        taken = noop_job(name="taken")
        owner.post("/jobs", taken)
        first = owner.post("/jobs", taken, **keyed())
        Job.objects.update(name="free again")
        assert first.status_code == 409
        assert told(owner.post("/jobs", taken, **keyed())) == told(first)

    def test_is_done_again_after_a_day(
        self, owner: Caller, clock: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = make_job(owner.tenant)
        owner.post(f"/jobs/{job.id}/run", **keyed())
        clock(answers.KEPT_FOR - timedelta(minutes=1))
        assert owner.post(f"/jobs/{job.id}/run", **keyed())[REPLAYED] == "true"
        clock(answers.KEPT_FOR + timedelta(minutes=1))
        assert REPLAYED not in owner.post(f"/jobs/{job.id}/run", **keyed())
        assert Trigger.objects.count() == 2


class TestAKey:
    def test_belongs_to_one_request(self, owner: Caller) -> None:
        job = make_job(owner.tenant)
        owner.post("/jobs", noop_job(), **keyed())
        for method, path, body in (
            ("POST", "/jobs", noop_job(name="other")),
            ("POST", f"/jobs/{job.id}/run", None),
            ("PATCH", f"/jobs/{job.id}", noop_job()),
        ):
            refused = owner.call(method, path, body, **keyed())
            assert refused.status_code == 422
            assert refused["Content-Type"] == "application/problem+json"
            assert refused.json()["type"] == "urn:carillon:problem:idempotency-key-reused"
        assert (jobs_stored(), Trigger.objects.count()) == (2, 0)

    def test_belongs_to_one_tenant(self, owner: Caller, outsider: Caller) -> None:
        own = owner.post("/jobs", noop_job(), **keyed())
        foreign = outsider.post("/jobs", noop_job(), **keyed())
        assert (foreign.status_code, REPLAYED in foreign) == (201, False)
        assert own.json()["id"] != foreign.json()["id"]

    def test_outlives_the_api_key_it_came_with(self, owner: Caller) -> None:
        first = owner.post("/jobs", noop_job(), **keyed())
        assert told(Caller(owner.tenant).post("/jobs", noop_job(), **keyed())) == told(first)

    def test_gives_no_answer_to_a_key_that_may_not_write(self, owner: Caller, reader: Caller) -> None:
        owner.post("/jobs", noop_job(), **keyed())
        assert reader.post("/jobs", noop_job(), **keyed()).status_code == 403

    @pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "ä", '"', 'a"b', '"a', "a\\b", "\x7f"])
    def test_that_is_none_is_refused_by_name(self, owner: Caller, key: str) -> None:
        assert faulty_fields(owner.post("/jobs", noop_job(), **keyed(key))) == {"Idempotency-Key"}
        assert (jobs_stored(), Answer.objects.count()) == (0, 0)

    @pytest.mark.parametrize("key", ["x" * 255, "!#$%&'()*+,-./:;<=>?@[]^_`{|}~", '"quoted"'])
    def test_may_be_any_printable_ascii(self, owner: Caller, key: str) -> None:
        assert owner.post("/jobs", noop_job(), **keyed(key)).status_code == 201
        assert owner.post("/jobs", noop_job(), **keyed(key))[REPLAYED] == "true"

    def test_is_nothing_to_a_read(self, owner: Caller) -> None:
        assert owner.get("/jobs", **keyed()).status_code == 200
        assert not Answer.objects.exists()

    def test_is_not_looked_at_where_the_path_lacks_the_method(self, owner: Caller) -> None:
        assert owner.delete("/jobs", **keyed("no key")).status_code == 405


class TestWhatIsKept:
    def test_is_no_body_that_was_sent(self, owner: Caller) -> None:
        make_trigger(make_job(owner.tenant), "dead")
        owner.post("/dead-letters/replay", {"filter": {"reason": "exhausted"}}, **keyed())
        [kept] = Answer.objects.values()
        assert b"exhausted" not in bytes(kept["body"]) + bytes(kept["fingerprint"])
        assert len(bytes(kept["fingerprint"])) == 32

    def test_lacks_what_is_shown_once(self, owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(JobsView, "shown_once", ("secret",))
        monkeypatch.setattr(
            JobsView, "post", lambda view, request: Response({"id": 1, "secret": "s3cret"}, status=201)
        )
        first, second = (owner.post("/jobs", noop_job(), **keyed()) for _ in range(2))
        assert (first.json(), second.json()) == (
            {"id": 1, "secret": "s3cret"},
            {"id": 1, "secret": None},
        )
        assert b"s3cret" not in bytes(Answer.objects.get().body)

    @pytest.mark.parametrize(
        ("error", "status"), [(OperationalError("away"), 503), (RuntimeError("bug"), 500)]
    )
    def test_is_no_failure_of_ours_nor_what_it_had_written(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
    ) -> None:
        create = actions.create_job

        def fail(**given: Any) -> Any:
            create(**given)
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(actions, "create_job", fail)
            assert owner.post("/jobs", noop_job(), **keyed()).status_code == status
        assert (jobs_stored(), Answer.objects.count()) == (0, 0)
        assert owner.post("/jobs", noop_job(), **keyed()).status_code == 201

    def test_is_no_body_that_could_not_be_read(self, owner: Caller) -> None:
        assert owner.post("/jobs", b"{", **keyed()).status_code == 400
        assert owner.post("/jobs", b"x", content_type="text/plain", **keyed()).status_code == 415
        assert owner.post("/jobs", noop_job(), **keyed()).status_code == 201

    def test_is_dropped_by_housekeeping_after_a_day(
        self, owner: Caller, clock: Callable[[timedelta], None]
    ) -> None:
        owner.post("/jobs", noop_job(), **keyed("old"))
        clock(answers.KEPT_FOR - timedelta(minutes=1))
        owner.post("/jobs", noop_job(name="second"), **keyed("new"))
        clock(answers.KEPT_FOR + timedelta(minutes=1))
        Housekeeper(retention=timedelta(days=90), trail_retention=timedelta(days=90)).keep()
        assert [answer.key for answer in Answer.objects.all()] == ["new"]


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    def test_two_hundred_make_one_job(self, owner: Caller) -> None:
        ready, one_by_one = Barrier(200), Lock()

        def post(_: int) -> Any:
            caller = Caller(token=owner.token)
            # Two hundred connecting at once would test the server's limit on connections, not the keys.
            with one_by_one:
                connection.ensure_connection()
            ready.wait(300)
            try:
                return told(caller.post("/jobs", noop_job(), **keyed()))
            finally:
                connection.close()

        with ThreadPoolExecutor(200) as threads:
            answered = list(threads.map(post, range(200)))
        assert jobs_stored() == 1
        statuses = Counter(answer[0] for answer in answered)
        assert statuses[201] + statuses[409] == 200
        assert statuses[201] >= 1
        assert len({answer for answer in answered if answer[0] == 201}) == 1
        assert {answer[-1] for answer in answered if answer[0] == 409} <= {"1"}

    def test_the_second_is_sent_away_while_the_first_is_at_work(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create, meanwhile = actions.create_job, []

        def other() -> None:
            try:
                meanwhile.append(Caller(token=owner.token).post("/jobs", noop_job(), **keyed()))
            finally:
                connection.close()

        def slow(**given: Any) -> Any:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(other).result(10)
            return create(**given)

        with monkeypatch.context() as patched:
            patched.setattr(actions, "create_job", slow)
            assert owner.post("/jobs", noop_job(), **keyed()).status_code == 201
        [refused] = meanwhile
        assert (refused.status_code, refused["Retry-After"]) == (409, "1")
        assert refused.json()["type"] == "urn:carillon:problem:idempotency-key-in-use"

    @pytest.mark.parametrize(
        ("owner_of_point", "name", "left"),
        [(idempotency.answers, "keep", 0), (Endpoint, "finalize_response", 1)],
        ids=["between the write and its commit", "between the commit and the answer"],
    )
    def test_a_retry_after_a_crash_makes_one_job(
        self, owner: Caller, monkeypatch: pytest.MonkeyPatch, owner_of_point: Any, name: str, left: int
    ) -> None:
        """A process of its own dies by SIGKILL at that point."""
        connection.close()
        child = os.fork()
        if child == 0:
            monkeypatch.setattr(owner_of_point, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            try:
                owner.post("/jobs", noop_job(), **keyed())
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        retried = Caller(token=owner.token).post("/jobs", noop_job(), **keyed())
        assert (retried.status_code, REPLAYED in retried, jobs_stored()) == (201, bool(left), 1)
