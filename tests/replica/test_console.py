"""The console's lists of history, read from a real replica."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django_celery_results.models import TaskResult

from jobs.models import Trigger
from jobs.store.replica.watch import WATCH
from tenants.models import OperatorBounds
from tests import factories
from tests.interfaces.admin.world import CONFIRMED, signed_in
from tests.replica.server import Replica
from tests.workflows.playing import begin, make_workflow

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
LISTS = (
    "jobs_trigger",
    "jobs_attempt",
    "jobs_change",
    "jobs_workflowrun",
    "django_celery_results_taskresult",
)
AS_OF = b'id="as-of"'


@pytest.fixture
def operator(transactional_db: None, job_types: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def trigger(operator: Client) -> Trigger:
    return one_of_each()


def one_of_each() -> Trigger:
    found = factories.make_trigger(state="dead", reason="exhausted")
    factories.make_attempt(found, "failed", error_code="http_500")
    begin(make_workflow(found.tenant, ("a", "b")))
    TaskResult.objects.create(task_id=str(found.id), status="SUCCESS")
    return found


def listed(client: Client, model: str, query: str = "", **headers: str) -> tuple[bytes, int]:
    answer = client.get(reverse(f"admin:{model}_changelist") + query, headers=headers)
    assert answer.status_code == 200
    return answer.content, answer.content.count(b'class="action-select"') or answer.content.count(b"<time")


class TestAListOfHistory:
    @pytest.mark.parametrize("model", LISTS)
    def test_is_read_from_the_replica_and_says_so(
        self, operator: Client, stopped: Replica, model: str
    ) -> None:
        before, rows = listed(operator, model)
        one_of_each()
        after, found = listed(operator, model)
        assert AS_OF in before
        assert AS_OF in after
        assert found == rows > 0

    @pytest.mark.parametrize("model", LISTS)
    def test_is_read_on_the_primary_where_a_reload_is_forced(
        self, operator: Client, stopped: Replica, model: str
    ) -> None:
        _, rows = listed(operator, model)
        one_of_each()
        page, found = listed(operator, model, **{"Cache-Control": "no-cache"})
        assert AS_OF not in page
        assert found > rows - 1  # the line of ``AS_OF`` itself shows a time

    def test_shows_an_operator_what_they_did(
        self, operator: Client, trigger: Trigger, stopped: Replica
    ) -> None:
        """On any list that comes next. Others read the replica all the while."""
        other = Client()
        other.force_login(User.objects.create_superuser("other"))
        assert AS_OF in listed(operator, "jobs_trigger")[0]
        button = reverse("admin:jobs_trigger_replay", args=[trigger.id])
        assert operator.post(button, CONFIRMED, headers={"HX-Request": "true"}).status_code == 200
        trigger.refresh_from_db()
        assert trigger.state == "pending"
        WATCH.look()
        page, _ = listed(operator, "jobs_trigger")
        assert AS_OF not in page
        assert str(trigger.id).encode() not in page
        assert str(trigger.id).encode() in listed(other, "jobs_trigger")[0]
        stopped.resume()
        stopped.catch_up()
        WATCH.look()
        page, _ = listed(operator, "jobs_trigger")
        assert AS_OF in page
        assert str(trigger.id).encode() not in page

    @pytest.mark.parametrize("query", ["?tab=running", "?tab=retrying", "?tab=late", "?q={id}"])
    def test_of_what_goes_on_or_is_searched_for_is_read_on_the_primary(
        self, operator: Client, trigger: Trigger, stopped: Replica, query: str
    ) -> None:
        assert AS_OF not in listed(operator, "jobs_trigger", query.format(id=trigger.id))[0]

    @pytest.mark.parametrize("model", ["jobs_job", "jobs_deadletter", "jobs_operation", "tenants_apikey"])
    def test_is_not_what_operators_work_through(self, operator: Client, stopped: Replica, model: str) -> None:
        assert AS_OF not in listed(operator, model)[0]

    def test_says_nothing_where_there_is_no_replica(self, operator: Client, trigger: Trigger) -> None:
        assert AS_OF not in listed(operator, "jobs_trigger")[0]
        operator.post(reverse("admin:jobs_job_add"), {})
        assert "wrote_at" not in operator.session

    def test_shows_what_is_there_while_the_replica_is_away(
        self, operator: Client, trigger: Trigger, replica: Replica
    ) -> None:
        assert AS_OF in listed(operator, "jobs_trigger")[0]
        replica.kill()
        try:
            page, _ = listed(operator, "jobs_trigger")
        finally:
            replica.revive()
        assert AS_OF not in page
        assert str(trigger.id).encode() in page

    def test_is_held_to_the_reach_of_this_moment(self, trigger: Trigger, stopped: Replica) -> None:
        bound = signed_in("view_trigger")
        assert str(trigger.id).encode() in listed(bound, "jobs_trigger")[0]
        OperatorBounds.objects.create(operator=User.objects.get(pk=bound.session["_auth_user_id"]))
        page, _ = listed(bound, "jobs_trigger")
        assert AS_OF in page
        assert str(trigger.id).encode() not in page
