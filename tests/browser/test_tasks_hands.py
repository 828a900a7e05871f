"""Tasks by hand: find anything, and the whole console by keyboard, in the dark and on a narrow screen."""

from django.urls import reverse
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from jobs.actions.bulk.operations import advance
from jobs.models import Job
from jobs.selection.walks import select
from tests import factories
from tests.browser.test_people import NARROW, theme, width
from tests.browser.walk import PATIENCE_SECONDS, Walk

MAX_CLICKS = 5
MAX_TABS = 80
USER_MENU = "#nav-sidebar [role=button][x-on\\:click*=openUserLinks]"
PALETTE = "#search-input-command"


def press(browser: Chrome, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def focused(browser: Chrome) -> WebElement:
    return browser.switch_to.active_element


def tab_to(browser: Chrome, text: str) -> WebElement:
    """Press Tab until the element that says ``text`` has the focus."""
    for _ in range(MAX_TABS):
        press(browser, Keys.TAB)
        if text in (focused(browser).text or focused(browser).get_attribute("aria-label") or ""):
            return focused(browser)
    raise AssertionError(f"{text!r} is out of reach of the keyboard")


def is_within(browser: Chrome, selector: str) -> bool:
    return bool(
        browser.execute_script("return Boolean(document.activeElement.closest(arguments[0]))", selector)
    )


def until_within(browser: Chrome, selector: str) -> None:
    WebDriverWait(browser, PATIENCE_SECONDS).until(
        lambda d: is_within(d, selector), f"no focus in {selector}"
    )


class TestFindAnything:
    def test_a_trigger_by_eight_digits_of_its_id(self, walk: Walk) -> None:
        trigger = factories.make_trigger(factories.make_job(name="close-books"), "dead")
        walk.click("Find anything")
        walk.type(PALETTE, str(trigger.id)[:8])
        walk.click("dead", within="#command-results")
        walk.reads(str(trigger.id), within="#content")
        assert walk.clicks <= MAX_CLICKS

    def test_a_job_by_tenant_and_name_with_keys_alone(self, operator: Chrome) -> None:
        job = factories.make_job(name="close-books")
        ActionChains(operator).key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
        until_within(operator, PALETTE)
        press(operator, f"{job.tenant.slug}/close", Keys.ENTER)  # too soon, and no error
        WebDriverWait(operator, PATIENCE_SECONDS).until(
            lambda d: d.find_elements(By.CSS_SELECTOR, "#command-results a")
        )
        press(operator, Keys.ENTER)
        WebDriverWait(operator, PATIENCE_SECONDS).until(lambda d: str(job.id) in d.current_url)


class TestManyAtOnce:
    def test_two_hundred_jobs_are_paused_with_their_number_shown(self, walk: Walk) -> None:
        tenant = factories.make_tenant(slug="globex")
        for number in range(200):
            factories.make_job(tenant, name=f"report-{number:03}")
        walk.click("Jobs", within="#nav-sidebar")
        walk.click("All that match")
        walk.click("Pause all of them")
        walk.reads("Pause 200 jobs of globex?")
        walk.type("#bulk [name=reason]", "Incident 42.")
        walk.click("Pause 200 jobs of globex", within="#bulk")
        walk.shown("#progress")
        assert walk.clicks <= MAX_CLICKS
        while advance(select):
            pass
        walk.reads("200 of 200 looked at, 200 done, 0 refused")
        assert set(Job.objects.values_list("status", "status_reason")) == {("paused", "Incident 42.")}

    def test_those_that_are_ticked_are_changed(self, walk: Walk) -> None:
        for name in ("close-books", "open-books"):
            factories.make_job(name=name)
        walk.click("Jobs", within="#nav-sidebar")
        walk.press("#result_list input.action-select")
        walk.shown("#changelist-actions select").find_element(
            By.XPATH, ".//option[normalize-space()='Pause the ticked']"
        ).click()
        walk.click("Run", within="#changelist-actions")
        walk.reads("1 job of")
        walk.click("Pause 1 job", within="#bulk")
        walk.shown("#progress")
        assert walk.clicks <= MAX_CLICKS


class TestKeyboardAlone:
    def test_opens_the_filters_and_comes_back(self, operator: Chrome, live_server) -> None:
        factories.make_job(name="close-books")
        operator.get(live_server.url + reverse("admin:jobs_job_changelist"))
        opener = tab_to(operator, "Filters")
        press(operator, Keys.ENTER)
        until_within(operator, "#changelist-filter[role=dialog]")
        press(operator, Keys.ESCAPE)
        WebDriverWait(operator, PATIENCE_SECONDS).until(lambda d: focused(d) == opener)

    def test_confirms_in_a_dialog_that_keeps_the_focus(self, operator: Chrome, live_server) -> None:
        job = factories.make_job(name="close-books")
        operator.get(live_server.url + reverse("admin:jobs_job_change", args=[job.id]))
        opener = tab_to(operator, "Pause")
        press(operator, Keys.ENTER)
        until_within(operator, "#modal-content[role=dialog][aria-modal=true]")
        for _ in range(12):
            press(operator, Keys.TAB)
            assert is_within(operator, "#modal-content")
        press(operator, Keys.ESCAPE)
        WebDriverWait(operator, PATIENCE_SECONDS).until(lambda d: focused(d) == opener)
        press(operator, Keys.ENTER)
        until_within(operator, "#modal-content #dialog")
        assert Job.objects.get().status == "active"
        tab_to(operator, "Pause")
        press(operator, Keys.ENTER)
        WebDriverWait(operator, PATIENCE_SECONDS).until(lambda d: "Paused." in d.page_source)
        assert Job.objects.get().status == "paused"

    def test_reaches_the_user_menu_and_the_list_of_keys(self, operator: Chrome) -> None:
        press(operator, Keys.TAB)
        assert focused(operator).text == "Skip to the page"
        tab_to(operator, "root")
        press(operator, Keys.ENTER)
        until_within(operator, "nav .cursor-pointer, nav a, nav select")
        press(operator, Keys.ESCAPE, "?")
        keys = operator.find_element(By.ID, "keys")
        assert "Find anything" in keys.text
        press(operator, Keys.ESCAPE)
        WebDriverWait(operator, PATIENCE_SECONDS).until(lambda d: not keys.is_displayed())
        press(operator, "gj")
        WebDriverWait(operator, PATIENCE_SECONDS).until(
            lambda d: d.current_url.endswith(reverse("admin:jobs_job_changelist"))
        )


class TestOtherEyes:
    def test_dark_mode_is_two_clicks_away_and_stays(self, walk: Walk) -> None:
        walk.press(USER_MENU)
        walk.press("#nav-sidebar [x-on\\:click*=dark]")
        dark = "return document.documentElement.classList.contains('dark')"
        WebDriverWait(walk.browser, PATIENCE_SECONDS).until(lambda d: d.execute_script(dark))
        walk.click("Jobs", within="#nav-sidebar")
        assert walk.browser.execute_script(dark)
        assert walk.clicks <= MAX_CLICKS
        theme(walk.browser, "light")

    def test_a_narrow_screen_leads_to_a_job_and_never_scrolls_sideways(self, walk: Walk) -> None:
        factories.make_job(name="close-books")
        try:
            width(walk.browser, NARROW)
            walk.press("#main [aria-label='Show or hide the menu']")
            walk.click("Jobs", within="#nav-sidebar")
            walk.shown("#result_list")
            wide = "return document.documentElement.scrollWidth"
            assert walk.browser.execute_script(wide) <= NARROW
            walk.click("close-books", within="#result_list")
            walk.shown("#job-status")
        finally:
            walk.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        assert walk.clicks <= MAX_CLICKS

    def test_times_are_in_the_zone_that_the_reader_chose(self, walk: Walk) -> None:
        walk.browser.execute_script(
            "const time = document.createElement('time'); time.id = 'noon';"
            "time.dateTime = '2030-01-31T12:00:00Z'; time.textContent = '2030-01-31 12:00:00.000 UTC';"
            "document.getElementById('content').append(time)"
        )
        walk.press(USER_MENU)
        walk.press("#reader-zone")
        walk.press("#reader-zone option[value='Asia/Kolkata']")
        noon = walk.shown("#noon")
        assert noon.text == "2030-01-31 17:30:00.000 +05:30"
        assert noon.get_attribute("title") == "2030-01-31 12:00:00.000 UTC"
        walk.browser.execute_script("localStorage.clear()")
        assert walk.clicks <= MAX_CLICKS
