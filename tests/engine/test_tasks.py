"""The Celery side of a worker: how it reads a message, and the result it leaves."""

import json
from typing import Any

import pytest
from celery.app.trace import build_tracer
from django_celery_results.models import TaskResult

from jobs.engine import worker
from jobs.models import Trigger
from jobs.store.execution import ClaimToken
from jobs.tasks import parse_items
from scheduler_project.celery import app
from tests import factories
from tests.engine.conftest import Perform, queued
from tests.factories import attempts


class TestParseItems:
    def test_reads_what_the_publisher_sends(self) -> None:
        one, two = factories.new_id(), factories.new_id()
        assert parse_items([[str(one), 1], (str(two), 7)]) == [ClaimToken(one, 1), ClaimToken(two, 7)]

    @pytest.mark.parametrize(
        "items",
        [
            None,
            7,
            "text",
            "ab",
            {},
            {"a": 1, "b": 2},
            [],
            [[]],
            [None, 1, "x", [1], [1, 2], ["not-a-uuid", 1], [None, None]],
            [["0" * 32, "one"], ["0" * 32, None], ["0" * 32, [1]], ["0" * 32, float("nan")]],
            [["0" * 32, float("inf")], ["0" * 32, -1], ["0" * 32, 2**31], ["0" * 32, True], ["0" * 32, "1"]],
        ],
        ids=repr,
    )
    def test_drops_what_is_no_trigger(self, items: Any) -> None:
        assert parse_items(items) == []

    def test_ignores_what_a_later_version_adds_to_an_item(self) -> None:
        trigger_id = factories.new_id()
        assert parse_items([[str(trigger_id), 1, {"trace": "a"}, 7]]) == [ClaimToken(trigger_id, 1)]

    def test_keeps_the_good_items_of_a_bad_message(self) -> None:
        trigger_id = factories.new_id()
        assert parse_items(["x", [str(trigger_id), 1], None]) == [ClaimToken(trigger_id, 1)]


@pytest.mark.django_db(transaction=True)
class TestTaskResult:
    """A Celery task traced in this process, with the real result backend."""

    @staticmethod
    def deliver(*triggers: Trigger, task_id: str) -> None:
        task = app.tasks[f"jobs.{triggers[0].job_type}"]
        tracer = build_tracer(task.name, task, app=app)
        request = {
            "id": task_id,
            "task": task.name,
            "hostname": "w1@test",
            "argsrepr": f"({len(triggers)} triggers,)",
            "is_eager": False,
        }
        tracer(task_id, ([[str(trigger.id), trigger.fence] for trigger in triggers],), {}, request)

    def test_is_a_summary_under_the_id_the_attempt_records(self, perform: Perform) -> None:
        triggers = [queued("noop"), queued("noop")]
        self.deliver(*triggers, task_id="11111111-1111-4111-8111-111111111111")
        [kept] = TaskResult.objects.all()
        assert (json.loads(kept.result), kept.status, kept.task_name) == (
            {"succeeded": 2},
            "SUCCESS",
            "jobs.noop",
        )
        assert {attempts(trigger)[0].celery_task_id for trigger in triggers} == {kept.task_id}
        assert app.backend.get_result(kept.task_id) == {"succeeded": 2}

    def test_is_left_out_where_one_attempt_says_it_all(self, perform: Perform) -> None:
        trigger = queued("noop")
        self.deliver(trigger, task_id="11111111-1111-4111-8111-111111111111")
        assert not TaskResult.objects.exists()
        assert [(a.state, a.celery_task_id) for a in attempts(trigger)] == [
            ("succeeded", "11111111-1111-4111-8111-111111111111")
        ]

    def test_is_neither_overwritten_nor_joined_by_a_stale_copy(self, perform: Perform) -> None:
        triggers = [queued("noop"), queued("noop")]
        for task_id in ("a", "a", "b"):
            self.deliver(*triggers, task_id=task_id)
        [kept] = TaskResult.objects.all()
        assert (kept.task_id, json.loads(kept.result)) == ("a", {"succeeded": 2})

    def test_is_none_of_a_message_without_triggers(self, perform: Perform) -> None:
        task = app.tasks["jobs.noop"]
        tracer = build_tracer(task.name, task, app=app)
        for args, kwargs in (((), {}), (([],), {}), ((["garbage"],), {}), ((None,), {"items_of": 3})):
            tracer(
                "a", args, kwargs, {"id": "a", "task": task.name, "hostname": "w1@test", "is_eager": False}
            )
        assert TaskResult.objects.count() == 0

    def test_ignores_what_a_later_version_adds_to_a_message(self, perform: Perform) -> None:
        trigger = queued("noop")
        task = app.tasks["jobs.noop"]
        request = {"id": "a", "task": task.name, "hostname": "w1@test", "is_eager": False}
        args = ([[str(trigger.id), trigger.fence]], "more")
        build_tracer(task.name, task, app=app)("a", args, {"origin": "later"}, request)
        assert factories.state_of(trigger) == ("succeeded", "")

    def test_says_when_the_body_itself_failed(
        self, perform: Perform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(**_: Any) -> None:
            raise RuntimeError("no\0way")

        monkeypatch.setattr(worker, "perform", broken)
        self.deliver(queued("noop"), task_id="a")
        kept = TaskResult.objects.get()
        assert kept.status == "FAILURE"
        assert "\0" not in (kept.traceback or "")
