"""Tasks of every day that no screen of its own serves: each from the overview in five clicks or fewer."""

from django.contrib.auth.models import User
from selenium.webdriver import Chrome, Keys

from jobs.models import Job, Trigger
from tenants.actions import create_api_key
from tenants.models import ApiKey
from tests import factories
from tests.browser.walk import Walk

MAX_CLICKS = 5
SIDEBAR = "#nav-sidebar"


class TestSigningIn:
    def test_takes_a_name_a_password_and_one_click(self, browser: Chrome, live_server) -> None:
        User.objects.create_superuser("root", password="correct horse")
        browser.delete_all_cookies()
        browser.get(f"{live_server.url}/admin/")
        walk = Walk(browser)
        walk.shown("[name=username]")
        # The name has the focus already.
        browser.switch_to.active_element.send_keys("root", Keys.TAB, "correct horse")
        walk.click("Log in")
        walk.shown("#sentence")
        assert walk.clicks == 1


class TestAJob:
    def test_is_found_and_edited(self, walk: Walk) -> None:
        factories.make_job(
            name="close-books", cron_expression="0 2 * * *", interval=None, schedule_type="cron"
        )
        walk.click("Jobs", within=SIDEBAR)
        walk.click("close-books")
        walk.type("[name=schedule_cron]", "30 3 * * *")
        walk.press("[name=_save]")
        walk.reads("changed successfully")
        assert Job.objects.get().cron_expression == "30 3 * * *"
        assert walk.clicks <= MAX_CLICKS


class TestAFiring:
    def test_that_runs_is_found_beside_others_and_cancelled(self, walk: Walk) -> None:
        job = factories.make_job(name="close-books")
        factories.make_triggers(job, 3, "succeeded")
        running = factories.make_trigger(job, "running", worker="worker1@host-a")
        walk.click("Triggers", within=SIDEBAR)
        walk.click("Running", within="#main")
        walk.press("#result_list tbody th a")
        walk.click("Cancel")
        walk.click("Cancel the firing", within="#dialog")
        walk.reads("Cancelled, or asked to stop.")
        running.refresh_from_db()
        assert running.cancel_requested
        assert walk.clicks <= MAX_CLICKS

    def test_that_failed_tells_what_its_target_answered_and_is_replayed(self, walk: Walk) -> None:
        dead = factories.make_trigger(factories.make_job(name="close-books"), "dead", attempt_count=1)
        factories.make_attempt(
            dead, "failed", error_code="http_503", http_status=503, error_message="Ledger is locked."
        )
        walk.click("Dead letters", within=SIDEBAR)
        walk.press("#result_list tbody th a")
        walk.reads("Ledger is locked.")
        assert walk.clicks <= MAX_CLICKS
        walk.click("Replay")
        walk.click("Replay", within="#dialog")
        walk.reads("Replayed.")
        assert Trigger.objects.get().state == "pending"
        assert walk.clicks <= MAX_CLICKS

    def test_that_failed_is_replayed_with_all_of_its_kind(self, walk: Walk) -> None:
        for job in (factories.make_job(factories.make_tenant(slug=slug)) for slug in ("acme", "globex")):
            for trigger in factories.make_triggers(job, 3, "dead"):
                factories.make_attempt(trigger, "failed", error_code="http_503", http_status=503)
        walk.click("Failures", within=SIDEBAR)
        walk.click("Replay the rest")
        walk.reads("3")
        walk.press("#main form button[type=submit]")
        walk.shown("#progress")
        assert walk.clicks <= MAX_CLICKS


class TestAKey:
    def test_is_rotated_and_its_successor_shown_once(self, walk: Walk) -> None:
        create_api_key(tenant=factories.make_tenant(slug="acme"), name="ci", scopes=["read"])
        walk.click("API keys", within=SIDEBAR)
        walk.press("#result_list tbody th a")
        walk.click("Rotate")
        walk.click("Rotate", within="#dialog")
        walk.reads("copy it now, it is shown only once")
        assert ApiKey.objects.filter(expires_at=None).count() == 1
        assert walk.clicks <= MAX_CLICKS
