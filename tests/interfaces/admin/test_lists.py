"""Lists of the console never count, join or sort, and find the rows that an operator looks for."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django_celery_results.models import TaskResult

from jobs.actions.bulk.operations import begin_operation
from jobs.admin.shared.lists import first_id_since
from jobs.models.fields import new_id
from jobs.store import execution
from tests import factories
from tests.interfaces.admin.world import World, press
from tests.workflows.playing import begin, make_workflow

pytestmark = pytest.mark.django_db
PAGES = (
    "jobs_job",
    "jobs_trigger",
    "jobs_deadletter",
    "jobs_attempt",
    "django_celery_results_taskresult",
    "jobs_change",
    "jobs_operation",
    "jobs_workflow",
    "jobs_workflowrun",
)


class TestLists:
    def queries(self, client: Client, url: str) -> list[str]:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert client.get(url).status_code == 200
        return [query["sql"] for query in captured]

    def test_neither_count_nor_join_and_ask_as_much_for_many_rows_as_for_few(
        self, world: World, operator: Client
    ) -> None:
        urls = [
            reverse(f"admin:{page}_changelist") + query
            for page in PAGES
            for query in ("", "?q=close", "?p=2")
        ]
        for url in urls:
            self.queries(operator, url)
        few = {url: len(self.queries(operator, url)) for url in urls}
        for number in range(60):
            tenant = factories.make_tenant()
            job = factories.make_job(tenant, name=f"close-{number}")
            trigger = factories.make_trigger(job, "dead")
            factories.make_attempt(trigger, "failed")
            begin_operation(tenant=tenant, verb="pause", wanted={})
            begin(make_workflow(tenant, ("extract", "load"), name=f"close-{number}"))
            TaskResult.objects.create(task_id=str(uuid4()), status="SUCCESS")
        for url in urls:
            many = self.queries(operator, url)
            # Prefetching asks by id as soon as a page has a row. The second page has rows only now.
            assert len(many) <= few[url] + 3, url
            joins = [sql for sql in many if "JOIN" in sql and ("jobs_" in sql or "taskresult" in sql)]
            assert (url, joins, [sql for sql in many if "COUNT(" in sql]) == (url, [], [])

    def test_pages_follow_each_other_without_a_gap(self, world: World, operator: Client) -> None:
        triggers = [world.dead, *factories.make_triggers(world.job, 60, "succeeded")]
        url = reverse("admin:jobs_trigger_changelist")
        pages = [operator.get(f"{url}?p={number}").context["cl"] for number in (1, 2)]
        assert [trigger.id for page in pages for trigger in page.result_list] == [
            trigger.id for trigger in sorted(triggers, key=lambda trigger: trigger.id, reverse=True)
        ]
        assert [page.has_next for page in pages] == [True, False]

    @pytest.mark.parametrize("number", ["-1", "0", "x", "9999999999999999999999"])
    def test_a_senseless_page_number_is_no_error(self, number: str, world: World, operator: Client) -> None:
        assert operator.get(reverse("admin:jobs_trigger_changelist") + f"?p={number}").status_code == 200

    def test_a_sort_order_from_the_url_is_ignored(self, world: World, operator: Client) -> None:
        url = reverse("admin:jobs_job_changelist") + "?o=1"
        assert any('ORDER BY "jobs_job"."id" DESC LIMIT' in sql for sql in self.queries(operator, url))

    def test_triggers_are_found_by_their_id_and_by_their_jobs(self, world: World, operator: Client) -> None:
        factories.make_trigger()
        url = reverse("admin:jobs_trigger_changelist")
        for wanted in (world.dead.id, world.job.id):
            found = operator.get(f"{url}?q={wanted}").context["cl"].result_list
            assert [trigger.id for trigger in found] == [world.dead.id]
        for senseless in ("none", uuid4()):
            assert operator.get(f"{url}?q={senseless}").context["cl"].result_list == []
        assert operator.get(f"{url}?q=%00").status_code == 400

    def test_attempts_are_found_by_the_celery_task_that_carried_them(
        self, world: World, operator: Client
    ) -> None:
        task_id = str(new_id())
        mine = [factories.make_trigger(state="queued") for _ in range(2)]
        for triggers, carried_by in (
            (mine, task_id),
            ([factories.make_trigger(state="queued")], str(new_id())),
        ):
            execution.claim(
                tokens=[factories.claim_token(trigger) for trigger in triggers],
                job_types=["noop"],
                worker="w1",
                celery_task_id=carried_by,
                lease=factories.HOUR,
            )
        url = reverse("admin:jobs_attempt_changelist")

        def found(wanted: str) -> set[UUID]:
            return {
                attempt.trigger_id for attempt in operator.get(f"{url}?q={wanted}").context["cl"].result_list
            }

        assert found(task_id) == {trigger.id for trigger in mine}
        assert found(str(mine[0].id)) == {mine[0].id}
        assert found(str(new_id())) == found(str(uuid4())) == set()

    def test_jobs_are_found_by_how_their_name_begins(self, world: World, operator: Client) -> None:
        factories.make_job(name="open-books")
        found = operator.get(reverse("admin:jobs_job_changelist") + "?q=close").context["cl"].result_list
        assert [job.name for job in found] == ["close-books"]

    def test_deleted_jobs_are_out_of_the_list_unless_asked_for(self, world: World, operator: Client) -> None:
        press(operator, "jobs_job_delete_for_good", world.job)
        url = reverse("admin:jobs_job_changelist")
        assert operator.get(url).context["cl"].result_list == []
        assert len(operator.get(f"{url}?deleted=1").context["cl"].result_list) == 1

    def test_created_within_bounds_the_primary_key(self, world: World) -> None:
        now = factories.now()
        assert (
            first_id_since(now - timedelta(minutes=1))
            < world.dead.id
            < first_id_since(now + timedelta(minutes=1))
        )
