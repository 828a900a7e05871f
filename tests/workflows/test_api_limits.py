"""The API of workflows at its limits: calls at the same moment, a thousand tasks, and rows that lists may not read."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.db.transaction import atomic
from django.test.utils import CaptureQueriesContext

from jobs.core.workflows.graph import MAX_EDGES, MAX_TASKS
from jobs.models import Job, Workflow, WorkflowRun, WorkflowVersion
from jobs.store import db
from tests import factories
from tests.interfaces.api.caller import Caller
from tests.store.plans.planner import nodes
from tests.workflows.playing import begin, make_workflow, play

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 6


@pytest.fixture
def owner() -> Caller:
    return Caller(factories.make_tenant())


def etl(**task: Any) -> dict[str, Any]:
    return {"name": "etl", "tasks": {"extract": {"job_type": "noop"} | task}}


def at_once(*calls: Any) -> list[int]:
    """The status of each call. All calls begin at the same moment."""
    together = Barrier(len(calls))

    def one(call: Any) -> int:
        try:
            together.wait()
            return int(call().status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(one, calls))


class TestCallersAtTheSameMoment:
    def test_of_edits_of_one_version_do_one(self, owner: Caller) -> None:
        path = f"/workflows/{owner.post('/workflows', etl()).json()['id']}"
        edits = [
            lambda n=n: owner.put(path, etl(timeout_seconds=n + 1), **{"If-Match": '"1"'})
            for n in range(AT_ONCE)
        ]
        assert Counter(at_once(*edits)) == {200: 1, 412: AT_ONCE - 1}
        assert owner.get(path).json()["version"] == WorkflowVersion.objects.count() == 2

    def test_that_want_one_name_get_it_once(self, owner: Caller) -> None:
        creates = [lambda: owner.post("/workflows", etl()) for _ in range(AT_ONCE)]
        assert Counter(at_once(*creates)) == {201: 1, 409: AT_ONCE - 1}
        assert Job.with_hidden.count() == 1

    @pytest.mark.parametrize("_round", range(3))
    def test_run_a_workflow_or_delete_it(self, owner: Caller, _round: int) -> None:
        path = f"/workflows/{owner.post('/workflows', etl()).json()['id']}"
        *runs, deleted = at_once(
            *[lambda: owner.post(f"{path}/runs") for _ in range(AT_ONCE)], lambda: owner.delete(path)
        )
        if deleted == 204:
            assert set(runs) == {404}
        else:
            assert (deleted, Counter(runs)[201]) == (409, WorkflowRun.objects.count())
        assert Workflow.objects.filter(deleted_at=None).count() == (deleted == 409)


class TestEdits:
    @pytest.mark.parametrize(("before", "after"), [(1, True), (False, 0), ({"n": [1]}, {"n": [True]})])
    def test_tell_a_number_from_a_truth(self, owner: Caller, before: Any, after: Any) -> None:
        def calling(body: Any) -> dict[str, Any]:
            return etl(job_type="webhook", payload={"url": "https://etl.example/x", "body": body})

        path = f"/workflows/{owner.post('/workflows', calling(before)).json()['id']}"
        assert owner.put(path, calling(before)).json()["version"] == 1
        shown = owner.put(path, calling(after)).json()
        assert shown["version"] == 2
        assert json.dumps(shown["definition"]["tasks"]["extract"]["payload"]["body"]) == json.dumps(after)

    def test_that_restore_a_name_which_another_has_by_now_are_refused(self, owner: Caller) -> None:
        path = f"/workflows/{owner.post('/workflows', etl()).json()['id']}"
        assert owner.put(path, etl() | {"name": "other"}).status_code == 200
        assert owner.post("/workflows", etl()).status_code == 201
        refused = owner.post(f"{path}/versions/1/restore")
        assert (refused.status_code, owner.get(path).json()["version"]) == (409, 2)


class TestDeletedWorkflows:
    def test_do_not_run_again(self, owner: Caller) -> None:
        workflow = make_workflow(owner.tenant, tasks=["extract"])
        run = begin(workflow)
        play(run, {"extract": "dead"})
        assert owner.delete(f"/workflows/{workflow.id}").status_code == 204
        assert owner.post(f"/workflow-runs/{run.id}/retry").status_code == 409
        run.refresh_from_db()
        assert run.state == "failed"


class TestHiddenJobs:
    def test_are_no_jobs_of_the_api(self, owner: Caller) -> None:
        owner.post("/workflows", etl())
        hidden = Job.with_hidden.get()
        path = f"/jobs/{hidden.id}"
        answers = [
            owner.get(path), owner.patch(path, {"priority": "low"}), owner.delete(path), owner.post(f"{path}/run"),
            owner.post(f"{path}/pause"), owner.post(f"{path}/cancel"), owner.get(f"{path}/triggers"),
        ]  # fmt: skip
        assert {answer.status_code for answer in answers} == {404}
        assert vars(Job.with_hidden.get()) | {"_state": None} == vars(hidden) | {"_state": None}


def large(tasks: int) -> dict[str, Any]:
    """A definition of ``tasks`` tasks, each after the eleven before it, and of no more edges than there may be."""
    pairs = [(a, b) for b in range(tasks) for a in range(max(0, b - 11), b)][-MAX_EDGES:]
    return {
        "name": "large",
        "tasks": {f"t{number}": {"job_type": "noop"} for number in range(tasks)},
        "edges": [{"before": f"t{a}", "after": f"t{b}"} for a, b in pairs],
    }


class TestAtSize:
    def test_the_largest_workflow_is_created_run_and_read(self) -> None:
        owner = Caller(factories.make_tenant(max_jobs=MAX_TASKS))
        document = large(MAX_TASKS)
        keys = list(document["tasks"])
        assert len(document["edges"]) == MAX_EDGES
        made = owner.post("/workflows", document)
        assert made.status_code == 201, made.content
        run = owner.post(f"/workflows/{made.json()['id']}/runs")
        assert run.status_code == 201, run.content
        shown = owner.get(f"/workflow-runs/{run.json()['id']}").json()
        assert [task["task"] for task in shown["tasks"]] == keys
        assert sum(len(task["after"]) for task in shown["tasks"]) == MAX_EDGES

    def test_its_tasks_are_read_in_no_loop_within_a_loop(self) -> None:
        """With statistics of small workflows the planner joins by loops. That took 8 s for the largest."""
        owner = Caller(factories.make_tenant(max_jobs=MAX_TASKS))
        document = large(200)
        path = f"/workflows/{owner.post('/workflows', document).json()['id']}/runs"
        run = owner.post(path).json()["id"]
        with atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off")
            text = db.queries("workflows")["task_runs"].sql
            cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {text}", {"id": run})
            [[[explained]]] = cursor.fetchall()
        read = [node["Actual Rows"] * node["Actual Loops"] for node in nodes(explained["Plan"])]
        assert max(read) == len(document["edges"]) > 2_000

    def test_lists_ask_as_often_however_many_there_are_and_read_no_definition(self, owner: Caller) -> None:
        workflow = make_workflow(owner.tenant, tasks=["extract"])

        def asked(path: str) -> list[str]:
            with CaptureQueriesContext(connection) as found:
                assert owner.get(path).status_code == 200
            return [query["sql"] for query in found]

        lists = ["/workflows", f"/workflows/{workflow.id}/versions", "/workflow-runs"]
        begin(workflow)
        asked(lists[0])  # The first call of a key asks for more.
        few = [len(asked(path)) for path in lists]
        for _ in range(5):
            begin(workflow)
            begin(make_workflow(owner.tenant, tasks=["extract"]))
        many = [asked(path) for path in lists]
        assert [len(found) for found in many] == few
        assert not [sql for found in many for sql in found if '"definition"' in sql]
