"""The rights of the groups that Carillon comes with, and who sees payloads, answers and outputs."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from jobs.models import Job
from tenants.console.groups import ADMINISTRATOR, OPERATOR, VIEWER, keep_groups
from tests import factories
from tests.interfaces.admin.world import CONFIRMED, PAGES, World, inputs
from tests.workflows.playing import begin, make_workflow

pytestmark = pytest.mark.django_db
PAYLOAD, ANSWER, OUTPUT, RESULT = "word-of-payload", "word-of-answer", "word-of-output", "word-of-result"
WORDS = {PAYLOAD, ANSWER, OUTPUT, RESULT}


@pytest.fixture
def groups() -> None:
    keep_groups(plan=[])


def member(group: str, name: str = "member", **of_user: Any) -> Client:
    user = User.objects.create_user(name, is_staff=True, **of_user)
    user.groups.add(Group.objects.get(name=group))
    client = Client()
    client.force_login(user)
    return client


class TalkativeWorld(World):
    """Everything that a job is given or gives back holds a word of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.job.payload = {"word": PAYLOAD}
        self.job.save(update_fields=["payload"])
        self.dead.payload = {"word": PAYLOAD}
        self.dead.result = {"word": RESULT}
        self.dead.checkpoint = {"word": RESULT}
        self.dead.attempt_count = 1
        self.dead.save(update_fields=["payload", "result", "checkpoint", "attempt_count"])
        self.attempt.response_excerpt, self.attempt.output = ANSWER, OUTPUT
        self.attempt.save(update_fields=["response_excerpt", "output"])
        self.operation.changes = {"payload": {"word": PAYLOAD}}
        called = {"url": "https://api.example.com/extract", "body": {"word": PAYLOAD}}
        self.workflow = make_workflow(
            self.tenant, tasks=["extract"], payloads={"extract": called}, job_type="webhook"
        )
        self.run = begin(self.workflow, run_input={"word": PAYLOAD})
        self.operation.verb = "edit"
        self.operation.save(update_fields=["changes", "verb"])

    def told(self, client: Client) -> set[str]:
        """The words that the pages show."""
        texts = [client.get(self.url(page)).content.decode() for page in PAGES]
        return {word for word in WORDS if any(word in text for text in texts)}


@pytest.mark.usefixtures("groups")
class TestGroups:
    def test_a_viewer_sees_every_page_and_changes_nothing(self, world: World) -> None:
        viewer = member(VIEWER)
        for page in sorted(PAGES):
            if page.startswith("tenants_operatorsession"):
                continue
            kind = page.rpartition("_")[2]
            if kind in ("changelist", "change"):
                assert viewer.get(world.url(page)).status_code == 200, page
            if kind not in (
                "history",
                "changelist",
                "backfills",
                "versions",
            ):  # these only read, with any method
                assert viewer.post(world.url(page), CONFIRMED).status_code in (302, 403), page
        assert Job.objects.get(id=world.job.id).status == "active"
        assert viewer.get(reverse("admin:auth_user_changelist")).status_code == 403

    @pytest.mark.usefixtures("job_types")
    def test_an_operator_creates_and_pauses_jobs_and_makes_no_keys(self, world: World) -> None:
        operator = member(OPERATOR)
        sent = inputs(tenant=str(world.tenant.pk))
        assert operator.post(reverse("admin:jobs_job_add"), sent).status_code == 302
        operator.post(reverse("admin:jobs_job_pause", args=[world.job.pk]), CONFIRMED)
        assert Job.objects.get(id=world.job.id).status == "paused"
        assert operator.get(reverse("admin:tenants_apikey_add")).status_code == 403
        assert operator.get(reverse("admin:auth_user_changelist")).status_code == 403

    def test_an_access_administrator_gives_what_they_hold_to_others_alone(self, world: World) -> None:
        administrator = member(ADMINISTRATOR, "boss")
        clerk = User.objects.create_user("clerk", is_staff=True)
        ids = {group.name: group.pk for group in Group.objects.all()}

        def give(user: User, *names: str) -> set[str]:
            administrator.post(
                reverse("admin:auth_user_change", args=[user.pk]),
                {
                    "username": user.username, "is_active": "on", "is_staff": "on", "is_superuser": "on",
                    "date_joined_0": "2030-01-01", "date_joined_1": "00:00:00",
                    "bounds-TOTAL_FORMS": "0", "bounds-INITIAL_FORMS": "0",
                    "groups": [ids[name] for name in names],
                },
            )  # fmt: skip
            return {group.name for group in user.groups.all()}

        assert give(clerk, VIEWER) == {VIEWER}
        assert give(clerk, OPERATOR) == {VIEWER}  # refused as a whole: groups with more rights are no choice
        assert give(clerk) == set()
        boss = User.objects.get(username="boss")
        assert give(boss, VIEWER, ADMINISTRATOR) == {ADMINISTRATOR}
        assert not User.objects.filter(is_superuser=True).exists()

    def test_are_given_what_they_lack_and_keep_what_they_were_given(self) -> None:
        viewer, payloads = Group.objects.get(name=VIEWER), Permission.objects.get(codename="view_payload")
        before = set(viewer.permissions.values_list("codename", flat=True))
        assert {"view_job", "view_change", "view_tenant"} <= before
        assert not before & {"view_payload", "view_user", "view_operatorsession", "change_job"}
        viewer.permissions.set([payloads])
        keep_groups(plan=[])
        assert set(viewer.permissions.values_list("codename", flat=True)) == before | {"view_payload"}
        Group.objects.all().delete()
        keep_groups()  # called as when tests empty the database
        assert not Group.objects.exists()


@pytest.mark.usefixtures("groups")
class TestPayloads:
    def test_answers_and_outputs_are_hidden_from_viewers_unless_granted(self) -> None:
        world, viewer = TalkativeWorld(), member(VIEWER)
        assert world.told(viewer) == set()
        Group.objects.get(name=VIEWER).permissions.add(Permission.objects.get(codename="view_payload"))
        assert world.told(viewer) == WORDS  # control

    def test_are_not_edited_by_those_who_do_not_see_them(
        self, staff: Callable[..., Client], job_types: None
    ) -> None:
        job = factories.make_job(payload={"sleep_ms": 7}, name="nightly")
        url, sent = (
            reverse("admin:jobs_job_change", args=[job.pk]),
            inputs(name="renamed", version=str(job.version)),
        )
        editor = staff("view_job", "change_job")
        assert "sleep_ms" not in editor.get(url).content.decode()
        assert editor.post(url, sent).status_code == 403
        editor.post(reverse("admin:jobs_job_pause", args=[job.pk]), CONFIRMED)
        job.refresh_from_db()
        assert (job.name, job.status) == ("nightly", "paused")
        assert (
            "sleep_ms" in staff("view_job", "change_job", "view_payload").get(url).content.decode()
        )  # control
