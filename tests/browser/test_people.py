"""The console for all people: every page by axe-core, light and dark, wide and narrow; and the hosts it loads from."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium_axe_python import Axe

from jobs.admin.urls import urlpatterns
from scheduler_project.environment import Oidc
from tenants import second_factor
from tests.browser.chromium import HEIGHT, WIDTH, theme
from tests.interfaces.admin.world import NOBODYS, PAGES, World

NARROW = 390
GRAVE = ("critical", "serious")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ALL = {"runOnly": {"type": "tag", "values": TAGS}, "resultTypes": ["violations"]}
#: Rules that another colour may break, and another width.
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}
SIZES = {
    "runOnly": {"type": "rule", "values": ["target-size", "scrollable-region-focusable", "color-contrast"]},
    "resultTypes": ["violations"],
}
OTHERS = ("index", "auth_user_changelist", "auth_user_add", "auth_group_changelist", "auth_group_add")


def pages(world: World) -> Iterator[str]:
    """The address of each page; a new page is looked at from the day it is added."""
    yield from (reverse(f"admin:{name}") for name in OTHERS)
    for name in sorted(PAGES.keys() - NOBODYS):
        if name.endswith(("_changelist", "_change", "_add")):
            yield world.url(name)
    client = Client()
    client.force_login(User.objects.get(username="root"))
    for pattern in urlpatterns:
        if not pattern.pattern.converters and pattern.name:
            address = reverse(pattern.name)
            answer = client.get(address)
            # A fragment is seen within its page; a page that asks whether to act on an object is nothing without the
            # object.
            if answer.status_code == 200 and b"<html" in answer.content:
                yield address


def grave(browser: Chrome, options: object, *, without: list[str]) -> list[str]:
    """The findings of axe-core that are grave: rule and elements."""
    script = (
        "const [where, how, done] = arguments; axe.run(where, how).then((found) => done(found.violations))"
    )
    where = {"include": ["html"], "exclude": without}
    return [
        f"{violation['id']}: {' '.join(str(node['target'][0]) for node in violation['nodes'][:5])}"
        for violation in browser.execute_async_script(script, where, options)
        if violation["impact"] in GRAVE
    ]


def width(browser: Chrome, pixels: int) -> None:
    size = {"width": pixels, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def looked_at(browser: Chrome, *, without: list[str]) -> list[str]:
    """The grave findings on the open page, light and dark, wide and narrow."""
    width(browser, WIDTH)
    Axe(browser).inject()
    theme(browser, "light")
    found = [f"wide light {each}" for each in grave(browser, ALL, without=without)]
    theme(browser, "dark")
    found += [f"wide dark {each}" for each in grave(browser, COLOURS, without=without)]
    width(browser, NARROW)
    theme(browser, "dark")  # and wait until the page knows its new width
    found += [f"narrow dark {each}" for each in grave(browser, SIZES, without=without)]
    theme(browser, "light")
    return [*found, *(f"narrow light {each}" for each in grave(browser, SIZES, without=without))]


@pytest.fixture
def at_rest(operator: Chrome) -> Iterator[Chrome]:
    """The operator's browser, without transitions: a colour that changes is judged when it has changed."""
    source = """addEventListener("DOMContentLoaded", () => {
        const style = document.createElement("style");
        style.textContent = "*, *::before, *::after { transition: none !important; animation: none !important }";
        document.head.append(style);
    })"""
    script = operator.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    operator.set_script_timeout(60)
    yield operator
    operator.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    operator.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    operator.execute_script("localStorage.clear()")


class TestEveryPage:
    def test_is_fit_for_all_people_and_loads_nothing_from_elsewhere(
        self, at_rest: Chrome, live_server
    ) -> None:
        """Errors of scripts and reports of the Content-Security-Policy are looked for by ``operator``."""
        browser, found, hosts = at_rest, [], set()
        for page in pages(World()):
            browser.get(live_server.url + page)
            # The menu is the same everywhere.
            without = ["#nav-sidebar"] if page != reverse("admin:index") else []
            found += [f"{page} {each}" for each in looked_at(browser, without=without)]
            loaded = browser.execute_script(
                "return performance.getEntriesByType('resource').map((e) => e.name)"
            )
            hosts |= {urlsplit(name).netloc for name in loaded if name.startswith("http")}
        assert found == [], "\n".join(found)
        assert hosts == {urlsplit(live_server.url).netloc}


class TestSigningIn:
    def test_is_fit_for_all_people(self, at_rest: Chrome, live_server, settings) -> None:
        """The password page with a provider's button, the code's page, and the page that sets a second factor up."""
        settings.SECOND_FACTOR = "optional"
        settings.OIDC = Oidc("https://id.example.org", "carillon", "secret", "Example ID")
        operator = User.objects.get(username="root")
        at_rest.get(f"{live_server.url}/admin/second-factor/")
        found = [f"set up: {each}" for each in looked_at(at_rest, without=["#nav-sidebar"])]
        operator.set_password("a long password")
        operator.save()
        secret = second_factor.new_secret()
        code = second_factor.code_at(secret, second_factor.present_step())
        assert second_factor.set_up(operator=operator, secret=secret, code=code)
        at_rest.delete_all_cookies()
        at_rest.get(f"{live_server.url}/admin/login/")
        assert "Example ID" in at_rest.find_element(By.TAG_NAME, "body").text
        found += [f"password: {each}" for each in looked_at(at_rest, without=[])]
        at_rest.find_element(By.NAME, "username").send_keys("root")
        at_rest.find_element(By.NAME, "password").send_keys("a long password", Keys.ENTER)
        at_rest.find_element(By.NAME, "code")
        found += [f"code: {each}" for each in looked_at(at_rest, without=[])]
        assert found == [], "\n".join(found)
