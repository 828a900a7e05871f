"""The sabotages of workflows on the present functions of the database, without a cluster.

The actions of the engine are told as the receiver would tell them, and judged. So a migration that takes the effect out
of one of the sabotages is noticed.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from chaos.history import Brought, Closed, Ended, Record, RunAsked, Started, TenantMade
from chaos.history.workflows import OF_RUN
from chaos.judge import judge
from chaos.sabotage.catalogue import SABOTAGES
from jobs.models import Trigger
from tests import factories
from tests.chaos.telling import PLANS, a_workflow
from tests.workflows.playing import begin, claim_due, finish, key_of, make_workflow

FUNCTION = "carillon_settle_run(uuid)"
#: Kinds of breach that may come from a busy machine alone.
OF_TIME = {"late"}


@pytest.fixture
def sabotage(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The sabotage is in the database until the test is over."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_functiondef(%s::regprocedure)", [FUNCTION])
        [sound] = cursor.fetchone()
        if schema := SABOTAGES[request.param].schema:
            cursor.execute(schema)
    yield SABOTAGES[request.param]
    with connection.cursor() as cursor:
        cursor.execute(sound)


class Played:
    """A run of one of the load's workflows, whose tasks end one after the other, in the order in which they started."""

    def __init__(self, name: str) -> None:
        plan, self.made = PLANS[name], a_workflow(name)
        workflow = make_workflow(
            factories.make_tenant(max_in_flight=1000),
            *plan.edges,
            tasks=list(plan.tasks),
            whens={key: task.when for key, task in plan.tasks.items()},
            **({"max_parallel": plan.max_parallel} if plan.max_parallel else {}),
        )
        self.requested_at = time.time()
        self.run = begin(workflow, run_input={"number": 1})
        self.results: dict[str, int] = {}
        self.lines: list[Record] = []
        self._play()

    def _play(self) -> None:
        under_way: list[Any] = []
        while under_way := under_way + self._claimed():
            row = under_way.pop(0)
            if Trigger.objects.get(id=row.id).fence != row.fence:
                continue  # another claim has it: this one has no end
            finish([row], lambda _: "succeeded")
            number = self._number(row)
            self.results[key_of(row.id)] = number
            self.lines.append(Ended(at=time.time(), delivery=number, status=200, sent=True))

    def _claimed(self) -> list[Any]:
        rows = claim_due()
        for row in rows:
            self.lines += self._started(row)
        return rows

    def _number(self, row: Any) -> int:
        return hash((row.id, row.fence))

    def _started(self, row: Any) -> list[Record]:
        task, trigger = key_of(row.id), Trigger.objects.get(id=row.id)
        taken = {one: self.results.get(one) for one in self.made.tasks[task]["brings"]}
        number = self._number(row)
        return [
            Started(
                at=time.time(),
                delivery=number,
                job_id=str(trigger.job_id),
                trigger_id=str(row.id),
                scheduled_for=trigger.scheduled_for,
                attempt=trigger.attempt_count,
                fence=row.fence,
                execution_id=str(row.attempt_id),
                key=f"{OF_RUN}{self.run.id}:{task}",
            ),
            Brought(delivery=number, values={"number": 1, **taken}),
        ]

    def history(self) -> list[Record]:
        asked = RunAsked(
            workflow_id=self.made.workflow_id,
            number=1,
            requested_at=self.requested_at,
            acknowledged_at=time.time(),
            run_id=str(self.run.id),
            scheduled_for=self.run.scheduled_for,
        )
        tenant = TenantMade(slug="acme", max_in_flight=1000)
        return [tenant, self.made, asked, *self.lines, Closed(at=time.time() + 60)]


@pytest.mark.django_db(transaction=True)
class TestASabotageOfWorkflows:
    @pytest.mark.parametrize("sabotage", ["fan-in", "child-key"], indirect=True)
    @pytest.mark.parametrize("name", ["fan", "narrow"])
    def test_is_caught_in_what_the_engine_does_then(self, sabotage: Any, name: str) -> None:
        found = {breach.kind for breach in judge(Played(name).history()).breaches}
        assert found & sabotage.caught_as, found

    @pytest.mark.parametrize("sabotage", ["nothing"], indirect=True)
    @pytest.mark.parametrize("name", ["fan", "narrow"])
    def test_is_the_only_breach(self, sabotage: Any, name: str) -> None:
        verdict = judge(Played(name).history())
        assert [str(breach) for breach in verdict.breaches if breach.kind not in OF_TIME] == []
        assert verdict.firings == 22
