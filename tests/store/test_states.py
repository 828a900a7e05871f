"""Every state under every verb, generated from ``core.states.TRANSITIONS``.

A *deed* is one way the store carries a verb out. An allowed pair reaches exactly the states of the table over all of
its verb's deeds; a forbidden pair leaves the whole row as it was.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest

from jobs.core.states import TRANSITIONS, TriggerState, Verb, targets_of
from jobs.models import Job, TaskRun, Trigger
from jobs.store import db, execution, jobs, lifecycle, reap, workflows
from jobs.store.reap import Recovery
from tenants.models import Tenant
from tests import factories
from tests.workflows.playing import begin, make_workflow

pytestmark = pytest.mark.django_db
OVERDUE = timedelta(hours=1)
Deed = Callable[[Trigger], object]


def materialize(trigger: Trigger) -> None:
    jobs.materialize(
        [
            jobs.Firing(
                job_id=trigger.job_id,
                tenant_id=trigger.tenant_id,
                job_type=trigger.job_type,
                job_version=9,
                priority=0,
                scheduled_for=trigger.scheduled_for,
                due_at=trigger.due_at,
            )
        ]
    )


def skip(trigger: Trigger) -> None:
    db.queries("dispatch")["skip"](ids=[trigger.id], reasons=["misfire"])


def claim_of_a_paused_job(trigger: Trigger) -> None:
    Job.objects.filter(id=trigger.job_id).update(status="paused")
    factories.claim(trigger)


def finish(state: str) -> Deed:
    def deed(trigger: Trigger) -> None:
        attempt = factories.make_attempt(trigger)
        execution.finish([factories.finish_of(trigger, attempt, state)])

    return deed


def reap_running(state: str) -> Deed:
    def deed(trigger: Trigger) -> None:
        reason = {"dead": "poison", "cancelled": "requested"}.get(state, "")
        recovery = Recovery(factories.claim_token(trigger), TriggerState(state), reason, timedelta())
        reap.reap_running([recovery], leadership=factories.ANYONE)

    return deed


def reap_queued(_: Trigger) -> None:
    reap.reap_queued(leadership=factories.ANYONE, deadline=timedelta(seconds=30), limit=10)


def cancel_and_answer(trigger: Trigger) -> None:
    """A running trigger is cancelled by its worker, after it was asked to stop."""
    lifecycle.cancel(trigger_id=trigger.id, tenant_id=trigger.tenant_id)
    finish("cancelled")(trigger)


def cancel_job_and_retry(trigger: Trigger) -> None:
    lifecycle.cancel_jobs(job_ids=[trigger.job_id])
    finish("retrying")(trigger)


def answer(approved: bool) -> Deed:
    """The trigger becomes the wait of a run whose task has started."""

    def deed(trigger: Trigger) -> None:
        wait = {"wait": {"type": "approval"}}
        run = begin(make_workflow(Tenant.objects.get(id=trigger.tenant_id), waits=wait, tasks=["wait"]))
        Trigger.objects.filter(workflow_run_id=run.id).delete()
        TaskRun.objects.filter(run=run).update(id=trigger.id)
        workflows.answer(
            run_id=run.id,
            tenant_id=trigger.tenant_id,
            kind="approval",
            name="wait",
            result=None,
            refused=not approved,
        )

    return deed


DEEDS: dict[Verb, list[Deed]] = {
    Verb.MATERIALIZE: [materialize],
    Verb.DISPATCH: [lambda _: factories.dispatch()],
    Verb.SKIP: [
        skip,
        lambda trigger: lifecycle.skip_paused({trigger.job_id: trigger.due_at}, now=factories.now()),
    ],
    Verb.CLAIM: [factories.claim, claim_of_a_paused_job],
    Verb.RENEW: [lambda trigger: execution.renew(tokens=[factories.claim_token(trigger)], lease=OVERDUE)],
    Verb.SUCCEED: [finish("succeeded")],
    Verb.RETRY: [finish("retrying")],
    Verb.BURY: [finish("dead")],
    Verb.REAP: [reap_queued, reap_running("retrying"), reap_running("dead"), reap_running("cancelled")],
    Verb.CANCEL: [cancel_and_answer, cancel_job_and_retry],
    Verb.REPLAY: [lambda trigger: lifecycle.replay(trigger_ids=[trigger.id], tenant_id=trigger.tenant_id)],
    Verb.ANSWER: [answer(approved=True), answer(approved=False)],
}
PAIRS = [pytest.param(verb, state, id=f"{verb}-{state}") for verb in Verb for state in TriggerState]


def make_overdue(state: TriggerState) -> Trigger:
    """A trigger that every deed could affect: due, queued too long, its lease expired."""
    past = factories.now() - OVERDUE
    stamps = {"queued": {"queued_at": past}, "running": {"lease_expires_at": past}}
    return factories.make_trigger(state=state, **stamps.get(state, {}))


class TestStateMachine:
    def test_has_a_deed_for_every_verb(self) -> None:
        assert DEEDS.keys() == TRANSITIONS.keys() == set(Verb)

    @pytest.mark.parametrize(("verb", "state"), PAIRS)
    def test_reaches_exactly_the_states_of_the_table(self, verb: Verb, state: TriggerState) -> None:
        reached = set()
        for deed in DEEDS[verb]:
            trigger = make_overdue(state)
            before = factories.row(trigger)
            deed(trigger)
            after = factories.row(trigger)
            if after != before:
                reached.add(after["state"])
        assert reached == targets_of(verb, state)

    def test_materializes_a_new_trigger_as_pending(self) -> None:
        trigger = factories.make_trigger()
        Trigger.objects.all().delete()
        materialize(trigger)
        assert Trigger.objects.get().state in TRANSITIONS[Verb.MATERIALIZE][0].targets
