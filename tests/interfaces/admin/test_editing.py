"""The job's form while it is filled in: the preview, inputs for former JSON parts, the payload's fields, conflicts."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.actions.pull.types import declare_type
from jobs.models import Change, Job, Trigger
from tenants.models import OperatorBounds
from tests import factories
from tests.interfaces.admin.test_jobs import TestJobForm
from tests.interfaces.admin.world import World, inputs

pytestmark = pytest.mark.django_db

FRAGMENTS = ("console_job_preview", "console_job_payload", "console_job_test_send")
HOSTILE = (
    "\0",
    "9" * 5000,
    "x" * 10_000,
    "\U0001f600",
    "1e999",
    "{{7*7}}",
    "<script>",
    "../../etc/passwd",
    "R R R R R",
)


def preview(client: Client, **changes: str) -> dict[str, Any]:
    response = client.post(reverse("console_job_preview"), inputs(**changes))
    assert response.status_code == 200
    return dict(response.context_data)  # type: ignore[attr-defined]


class TestPreview:
    def test_tells_in_words_and_the_next_eight_instants_in_the_zone_and_in_utc(
        self, operator: Client
    ) -> None:
        told = preview(operator, schedule_cron="30 2 * * 1-5", schedule_timezone="Asia/Kolkata")
        assert told["sentence"] == "At 02:30, Monday through Friday, in Asia/Kolkata"
        assert len(told["firings"]) == 8
        assert all("02:30:00 +05:30" in row["local"] for row in told["firings"])
        assert all("21:00:00 UTC" in row["utc"] for row in told["firings"])
        assert all(row["ahead"].startswith("in ") for row in told["firings"])

    def test_tells_what_clocks_do_within_a_year(self, operator: Client) -> None:
        told = preview(operator, schedule_cron="30 2 * * *", schedule_timezone="Europe/Berlin")
        notes = [change["note"] for change in told["changes"]]
        assert len(notes) == 2
        assert any("02:30 does not exist" in note and "fires at 03:00" in note for note in notes)
        assert any("happens twice" in note for note in notes)

    @pytest.mark.parametrize(
        ("changes", "label", "text"),
        [
            ({"schedule_cron": "61 * * * *"}, "Cron", "59"),
            ({"schedule_cron": ""}, "Cron", "needs it"),
            ({"schedule_type": "interval", "schedule_every_seconds": "0.5"}, "Every (seconds)", "from 1 to"),
            ({"schedule_type": "interval", "schedule_every_seconds": "1_0"}, "Every (seconds)", "number"),
            ({"schedule_type": "once", "schedule_run_at": "2001-01-01T00:00:00Z"}, "Run at", "in the past"),
            ({"schedule_starts_at": "tomorrow"}, "Starts at", "2030-01-31T02:00:00Z"),
        ],
    )
    def test_refuses_what_saving_would_refuse_at_the_same_input(
        self, operator: Client, changes: dict[str, str], label: str, text: str
    ) -> None:
        [(told, words)] = preview(operator, **changes)["errors"]
        assert told == label
        assert text in words

    def test_says_what_zone_may_be_meant(self, operator: Client) -> None:
        told = preview(operator, schedule_timezone="kolkata")
        assert told["zones"] == ["Asia/Kolkata"]
        assert "did you mean Asia/Kolkata?" in told["errors"][0][1]

    def test_tells_the_ladder_of_retries(self, operator: Client) -> None:
        assert preview(operator)["ladder"] == "30 s, 2 min, 10 min, 30 min"
        told = preview(operator, retry_backoff="exponential", retry_max_attempts="4", retry_factor="3")
        assert (told["ladder"], told["in_all"]) == ("30 s, 90 s, 270 s", "6 min 30 s")
        told = preview(operator, retry_backoff="fixed", retry_max_attempts="100")
        assert told["ladder"] == "99 times 30 s"
        assert preview(operator, retry_policy='{"max_attempts": 2}')["ladder"] == "30 s"
        assert "max_attempts" in preview(operator, retry_max_attempts="0")["retry_errors"][0]

    def test_warns_of_retries_that_outlast_the_interval(self, operator: Client) -> None:
        minutely = {"schedule_type": "interval", "schedule_every_seconds": "60"}
        [caution] = preview(operator, **minutely)["cautions"]
        assert "retried for 42 min 30 s, longer than the 1 min between two firings: about 42" in caution
        assert "are skipped" in caution
        assert preview(operator, **minutely, overlap_policy="allow")["cautions"] == []
        assert preview(operator)["cautions"] == []

    def test_warns_of_a_jitter_longer_than_the_time_there_is(self, operator: Client) -> None:
        cautions = preview(
            operator, schedule_cron="* * * * *", schedule_jitter_seconds="90", overlap_policy="allow"
        )["cautions"]
        assert "not shorter than the 1 min between two firings" in cautions[0]

    def test_warns_of_a_crowded_minute(self, world: World, operator: Client) -> None:
        told = preview(operator, tenant=str(world.tenant.id))
        assert told["cautions"] == []
        # The others fire at midnight UTC, as the job of the form does.
        first = factories.now() + timedelta(days=400)
        midnight = first.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
        for number in range(20):
            factories.make_job(world.tenant, name=f"n{number}", next_fire_at=midnight)
        factories.make_job(factories.make_tenant(), next_fire_at=midnight)
        once = {"schedule_type": "once", "schedule_run_at": midnight.isoformat().replace("+00:00", "Z")}
        [caution] = preview(operator, tenant=str(world.tenant.id), **once)["cautions"]
        assert "00:00 UTC is a crowded minute: 20 jobs" in caution

    def test_writes_nothing_and_reads_no_more_than_needed(self, world: World, operator: Client) -> None:
        before = list(Job.objects.values())
        with CaptureQueriesContext(connection) as captured:
            preview(operator, tenant=str(world.tenant.id))
        asked = [query["sql"] for query in captured if "jobs_job" in query["sql"]]
        assert len(asked) == 1
        assert "LIMIT" in asked[0]
        assert list(Job.objects.values()) == before


class TestFragments:
    @pytest.mark.parametrize("page", FRAGMENTS)
    def test_are_for_whoever_may_write_jobs(
        self, page: str, world: World, staff: Callable[..., Client]
    ) -> None:
        sent = inputs(tenant=str(world.tenant.id))
        for permissions, status in (
            ((), 403),
            (("view_job",), 403),
            (("add_job",), 200),
            (("change_job",), 200),
        ):
            assert staff(*permissions).post(reverse(page), sent).status_code == status
        assert Client().post(reverse(page), sent).status_code == 302
        assert staff("change_job").get(reverse(page)).status_code == 405

    @pytest.mark.parametrize("page", FRAGMENTS)
    def test_are_held_to_reach(self, page: str, world: World, staff: Callable[..., Client]) -> None:
        client, mine = staff("add_job", "change_job"), factories.make_tenant()
        bounds = OperatorBounds.objects.create(operator=User.objects.get(username__startswith="staff"))
        bounds.tenants.set([mine])
        for tenant, status in ((mine, 200), (world.tenant, 403)):
            assert client.post(reverse(page), inputs(tenant=str(tenant.id))).status_code == status

    @pytest.mark.parametrize("page", FRAGMENTS)
    def test_take_anything(self, page: str, world: World, operator: Client) -> None:
        names = [
            *inputs(),
            "tenant",
            "anchor",
            "retry_delays_seconds",
            "retry_max_attempts",
            "overlap_policy",
        ]
        for name in names:
            for text in HOSTILE:
                sent = inputs(tenant=str(world.tenant.id)) | {name: text}
                answer = operator.post(reverse(page), sent)
                assert answer.status_code < 500, (name, text[:20])
                assert b"<script>" not in answer.content
        assert operator.post(reverse(page), {}).status_code == 200


class TestInputs:
    """Labels, retries and notices as inputs of their own."""

    def post(self, client: Client, world: World, **changes: Any) -> HttpResponse:
        return client.post(TestJobForm.url, inputs(tenant=str(world.tenant.id)) | changes)

    def test_say_what_the_json_said(self, world: World, operator: Client) -> None:
        sent = {
            "labels": "team=billing\n\nenv = prod",
            "retry_backoff": "delays",
            "retry_max_attempts": "3",
            "retry_delays_seconds": "30 s, 2 min, 1.5h",
            "retry_factor": "7",  # belongs to another back-off, and so is left out
            "notice_on": ["dead", "paused"],
            "notice_url": "https://ops.example/hook",
        }
        assert self.post(operator, world, **sent).status_code == 302
        job = Job.objects.get(name="nightly")
        assert job.labels == {"team": "billing", "env": "prod"}
        assert (job.retry_policy["max_attempts"], job.retry_policy["delays_seconds"]) == (3, [30, 120, 5400])
        assert job.notify == {"on": ["dead", "paused"], "url": "https://ops.example/hook"}
        form = operator.get(reverse("admin:jobs_job_change", args=[job.id])).context["adminform"].form
        assert form["retry_delays_seconds"].value() == "30 s, 2 min, 90 min"
        assert form["notice_on"].value() == ["dead", "paused"]
        assert form["labels"].value() == "env=prod\nteam=billing"

    @pytest.mark.parametrize(
        ("changes", "field", "text"),
        [
            ({"retry_max_attempts": "0"}, "retry_max_attempts", "from 1 to 100"),
            ({"retry_delays_seconds": "soon"}, "retry_delays_seconds", "30 s, 2 min"),
            ({"retry_delays_seconds": "0"}, "retry_delays_seconds", "from 0.1"),
            (
                {"retry_backoff": "fixed", "retry_initial_delay_seconds": "0"},
                "retry_initial_delay_seconds",
                "0.1",
            ),
            ({"retry_delays_seconds": "1," * 5000}, "retry_delays_seconds", "is not a delay"),
            ({"notice_on": ["dead"]}, "notice_url", "Give a url"),
            ({"notice_url": "https://ops.example"}, "notice_on", "required"),
            ({"notice_on": ["dead"], "notice_url": "ftp://x"}, "notice_url", "http"),
            ({"labels": "team"}, "labels", "key=value"),
            ({"labels": "a=1\na=2"}, "labels", "given twice"),
            ({"labels": "a=b\0"}, "labels", "Null characters"),
            ({"labels": "a=" + "x" * 100}, "labels", "1 to 63"),
        ],
    )
    def test_are_told_what_is_wrong_with_them(
        self, world: World, operator: Client, changes: dict[str, Any], field: str, text: str
    ) -> None:
        errors = self.post(operator, world, **changes).context["adminform"].form.errors
        assert list(errors) == [field]
        assert text in errors[field][0]

    def test_show_true_defaults(self, operator: Client) -> None:
        page = operator.get(TestJobForm.url).content.decode()
        for default in ("default: skip", "default: at least once", "default: medium", 'placeholder="3600"'):
            assert default in page

    def test_offer_the_zones_there_are(self, operator: Client) -> None:
        page = operator.get(TestJobForm.url).content.decode()
        assert '<option value="Asia/Kolkata">' in page
        assert '<option value="localtime">' not in page


class TestPayloadFields:
    def told(self, client: Client, world: World, job_type: str) -> dict[str, Any]:
        sent = {"tenant": str(world.tenant.id), "job_type": job_type}
        return dict(client.post(reverse("console_job_payload"), sent).context_data)  # type: ignore[attr-defined]

    def test_are_those_of_the_type(self, world: World, operator: Client) -> None:
        told = self.told(operator, world, "webhook")
        assert {field.name: field.kind for field in told["fields"]} == {
            "url": "text",
            "method": "choice",
            "headers": "json",
            "body": "json",
        }
        assert told["can_be_tried"]
        sent = inputs(tenant=str(world.tenant.id), job_type="webhook", payload=told["sample"])
        assert operator.post(TestJobForm.url, sent).status_code == 302

    def test_are_those_of_a_tenants_own_type_whatever_its_schema(
        self, world: World, operator: Client
    ) -> None:
        loop = {"$ref": "#/$defs/loop"}
        schema = {
            "type": "object",
            "required": ["n", "loop"],
            "$defs": {"loop": {"type": "object", "required": ["loop"], "properties": {"loop": loop}}},
            "properties": {"n": {"type": "integer", "minimum": 3}, "loop": loop, "<b>": {"type": ["string"]}},
        }
        declare_type(tenant=world.tenant, name="invoice.render", declaration={"payload_schema": schema})
        told = self.told(operator, world, "invoice.render")
        kinds = {field.name: field.kind for field in told["fields"]}
        assert kinds == {"n": "integer", "loop": "json", "<b>": "json"}
        assert json.loads(told["sample"])["n"] == 3
        assert "unknown" in self.told(operator, world, "none.such")


class TestTestSend:
    payload = json.dumps({"url": "https://example.com/hook?token=secret", "body": {}})

    def post(self, client: Client, world: World, **changes: str) -> Any:
        sent = {"tenant": str(world.tenant.id), "payload": self.payload} | changes
        return client.post(reverse("console_job_test_send"), sent)

    def test_asks_before_it_sends_and_tells_what(self, world: World, operator: Client) -> None:
        text = self.post(operator, world).content.decode()
        assert "one POST to <b>https://example.com/hook?…</b>" in text
        assert "token=secret" not in text
        assert Job.objects.count() == 1

    def test_is_an_immediate_job_of_one_attempt_on_the_trail(self, world: World, operator: Client) -> None:
        self.post(operator, world, confirmed="yes")
        job = Job.objects.get(job_type="webhook")
        assert (job.schedule_type, job.delivery, job.retry_policy["max_attempts"]) == (
            "immediate",
            "at_most_once",
            1,
        )
        assert job.name.startswith("test-send-")
        change = Change.objects.get(object_id=str(job.id))
        assert (change.actor_kind, change.action) == ("operator", "created")

    def test_shows_how_it_went(self, world: World, operator: Client) -> None:
        self.post(operator, world, confirmed="yes")
        job = Job.objects.get(job_type="webhook")
        trigger = Trigger.objects.filter(job=job).first() or factories.make_trigger(job)
        url = reverse("console_job_test_sent", args=[job.id])
        assert "On its way" in operator.get(url).content.decode()
        Trigger.objects.filter(id=trigger.id).update(
            state="dead", reason="permanent", finished_at=factories.now()
        )
        factories.make_attempt(
            trigger, "failed", http_status=404, error_message="It refuses this.", response_excerpt="<b>no</b>"
        )
        text = operator.get(url).content.decode()
        for words in ("HTTP 404", "It refuses this.", "&lt;b&gt;no&lt;/b&gt;"):
            assert words in text
        assert "hx-get" not in text

    def test_refuses_what_a_job_could_not_have(self, world: World, operator: Client) -> None:
        for payload in (
            "{}",
            "[]",
            '{"url": "ftp://x"}',
            "{",
            '{"url": "https://x.example/{{secret:none}}"}',
        ):
            response = self.post(operator, world, payload=payload, confirmed="yes")
            assert response.context_data["errors"]
        assert not Job.objects.filter(job_type="webhook").exists()

    def test_tells_of_no_other_job(self, world: World, operator: Client) -> None:
        assert operator.get(reverse("console_job_test_sent", args=[world.job.id])).status_code == 404


class TestConflict:
    def sent(self, client: Client, job: Job) -> dict[str, Any]:
        """The values that a browser has in a form that was just opened."""
        url = reverse("admin:jobs_job_change", args=[job.id])
        form = client.get(url).context["adminform"].form
        values = {name: form[name].value() for name in form.fields}
        return {name: value for name, value in values.items() if value is not None}

    @pytest.fixture
    def opened(self, world: World, operator: Client) -> dict[str, Any]:
        """A form that was opened before another operator made the job urgent, and gave it a label."""
        sent = self.sent(operator, world.job)
        other = self.sent(operator, world.job) | {"priority": "critical", "labels": "team=books"}
        assert operator.post(self.url(world), other).status_code == 302
        return sent

    def url(self, world: World) -> str:
        return reverse("admin:jobs_job_change", args=[world.job.id])

    def test_shows_both_sides_and_keeps_what_was_typed(
        self, world: World, operator: Client, opened: dict[str, Any]
    ) -> None:
        sent = opened | {"name": "close-the-books", "labels": "team=mine"}
        page = operator.post(self.url(world), sent)
        form = page.context["adminform"].form
        assert form.conflict.version == Job.objects.get(id=world.job.id).version
        assert {
            one.name: (one.theirs, one.mine, one.both, one.keep) for one in form.conflict.differences
        } == {
            "name": ("close-books", "close-the-books", False, "mine"),
            "priority": ("critical", "medium", False, "theirs"),
            "labels": ("team: books", "team: mine", True, "mine"),
        }
        assert "Save what is chosen on top of version" in page.content.decode()
        assert form["name"].value() == "close-the-books"

    def test_is_settled_by_choosing_field_by_field(
        self, world: World, operator: Client, opened: dict[str, Any]
    ) -> None:
        sent = opened | {"name": "close-the-books", "labels": "team=mine"}
        seen = operator.post(self.url(world), sent).context["adminform"].form.conflict
        chosen = {f"keep_{one.name}": one.keep for one in seen.differences} | {"keep_labels": "theirs"}
        assert (
            operator.post(self.url(world), sent | chosen | {"on_top_of": str(seen.version)}).status_code
            == 302
        )
        job = Job.objects.get(id=world.job.id)
        assert (job.name, job.priority, job.labels) == ("close-the-books", 0, {"team": "books"})

    def test_comes_again_when_a_third_has_saved(
        self, world: World, operator: Client, opened: dict[str, Any]
    ) -> None:
        sent = opened | {"name": "close-the-books", "on_top_of": "1"}
        page = operator.post(self.url(world), sent)
        assert page.context["adminform"].form.conflict.version > 1
        assert Job.objects.get(id=world.job.id).name == "close-books"

    @pytest.mark.parametrize("text", [*HOSTILE, "[]", '{"name": 5}', "{"])
    def test_takes_anything_from_the_browser(
        self, world: World, operator: Client, opened: dict[str, Any], text: str
    ) -> None:
        for name in ("opened", "on_top_of", "keep_name"):
            answer = operator.post(self.url(world), opened | {"name": "other", name: text})
            assert answer.status_code == 200
        assert Job.objects.get(id=world.job.id).name == "close-books"
