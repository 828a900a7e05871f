"""The console in a real browser: its pages render, its scripts run without an error, its dialogs write."""

from django.urls import reverse
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from jobs.models import Job
from tests import factories
from tests.browser.walk import PATIENCE_SECONDS


def click(browser: Chrome, text: str) -> None:
    """Follow the link that says ``text``, beside an icon or not."""
    browser.find_element(By.XPATH, f"//a[contains(normalize-space(.), '{text}')]").click()


class TestConsole:
    def test_leads_from_the_job_list_to_a_triggers_attempts(self, operator: Chrome) -> None:
        job = factories.make_job(name="close-books")
        trigger = factories.make_trigger(job, "dead", attempt_count=2)
        for number in (1, 2):
            factories.make_attempt(trigger, "failed", number=number, http_status=503)
        click(operator, "Jobs")
        click(operator, "close-books")
        operator.find_element(By.CSS_SELECTOR, "#recent-triggers a").click()
        rows = operator.find_elements(By.CSS_SELECTOR, "#attempts tbody tr")
        assert [row.text.split()[0] for row in rows] == ["2", "1"]
        assert "503" in rows[0].text

    def test_a_button_asks_before_it_writes(self, operator: Chrome, live_server) -> None:
        job = factories.make_job(name="close-books")
        operator.get(live_server.url + reverse("admin:jobs_job_change", args=[job.id]))
        click(operator, "Pause")
        confirm = (By.CSS_SELECTOR, "#dialog button[type=submit]")
        WebDriverWait(operator, PATIENCE_SECONDS).until(
            lambda d: d.find_elements(*confirm) and d.find_element(*confirm).is_displayed()
        )
        assert Job.objects.get().status == "active"
        operator.find_element(*confirm).click()
        WebDriverWait(operator, PATIENCE_SECONDS).until(lambda d: "Paused." in d.page_source)
        assert Job.objects.get().status == "paused"

    def test_the_form_shows_the_inputs_of_the_chosen_schedule_alone(
        self, operator: Chrome, live_server
    ) -> None:
        operator.get(live_server.url + reverse("admin:jobs_job_add"))
        cron, every = (
            operator.find_element(By.NAME, f"schedule_{name}") for name in ("cron", "every_seconds")
        )
        WebDriverWait(operator, PATIENCE_SECONDS).until(
            lambda d: cron.is_displayed() and not every.is_displayed()
        )
        operator.find_element(By.CSS_SELECTOR, "[name=schedule_type] [value=interval]").click()
        WebDriverWait(operator, PATIENCE_SECONDS).until(
            lambda d: every.is_displayed() and not cron.is_displayed()
        )

    def test_dispatch_is_stopped_for_a_reason_and_every_page_says_so(
        self, operator: Chrome, live_server
    ) -> None:
        click(operator, "Dispatch")
        click(operator, "Stop dispatch")
        reason = (By.CSS_SELECTOR, "#dialog input[name=reason]")
        WebDriverWait(operator, PATIENCE_SECONDS).until(
            lambda d: d.find_elements(*reason) and d.find_element(*reason).is_displayed()
        )
        operator.find_element(*reason).send_keys("Incident 42: webhooks are sent twice.")
        operator.find_element(By.CSS_SELECTOR, "#dialog button[type=submit]").click()
        banner = operator.find_element(By.ID, "dispatch-stopped")
        assert "by root, for all tenants: Incident 42" in banner.text
        operator.get(live_server.url + reverse("admin:jobs_job_changelist"))
        assert "Incident 42" in operator.find_element(By.ID, "dispatch-stopped").text
