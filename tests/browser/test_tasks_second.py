"""Tasks of signing in: to set up a second factor where it is required, and to sign in with its code."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from selenium.webdriver import Chrome
from selenium_axe_python import Axe

from tenants import second_factor
from tests.browser.test_people import ALL, COLOURS, NARROW, SIZES, grave, theme, width
from tests.browser.walk import Walk

PASSWORD = "right-horse-9"
MAX_CLICKS = 5


@pytest.fixture
def required(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SECOND_FACTOR = "required"
    monkeypatch.setattr(second_factor, "present_step", lambda: 63_000_000)


def is_fit(browser: Chrome) -> None:
    """By axe-core: light and dark, wide and narrow."""
    axe = Axe(browser)
    axe.inject()
    found = grave(browser, ALL, without=[])
    theme(browser, "dark")
    found += grave(browser, COLOURS, without=[])
    width(browser, NARROW)
    theme(browser, "dark")
    found += grave(browser, SIZES, without=[])
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    theme(browser, "light")
    assert found == [], browser.current_url


class TestASecondFactor:
    @pytest.mark.usefixtures("required")
    def test_is_set_up_at_the_first_sign_in_and_asked_for_at_the_next(
        self, browser: Chrome, live_server: Any
    ) -> None:
        User.objects.create_superuser("root", password=PASSWORD)
        walk = Walk(browser)

        def give_password() -> None:
            browser.delete_all_cookies()
            browser.get(f"{live_server.url}/admin/login/")
            walk.type("#id_username", "root")
            walk.type("#id_password", PASSWORD)
            walk.click("Log in", within="#login-form")

        give_password()
        walk.reads("Operators need a second factor here")
        is_fit(browser)
        secret = walk.shown("#secret").text.replace(" ", "")
        walk.type("#id_code", second_factor.code_at(secret, 63_000_000))
        walk.type("#id_password", PASSWORD)
        walk.click("Set up", within="#set-up")
        walk.reads("Your recovery codes")
        walk.click("I have them, go on")
        walk.shown("#nav-sidebar")
        assert walk.clicks <= MAX_CLICKS

        give_password()
        walk.reads("One more step")
        is_fit(browser)
        walk.type("#id_code", second_factor.code_at(secret, 63_000_001))
        walk.click("Go on", within="#code-form")
        walk.shown("#nav-sidebar")
        browser.get(f"{live_server.url}/admin/second-factor/")
        walk.reads("10 recovery codes left")
        is_fit(browser)
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
