"""A browser for each module of tests, and an operator who is signed in with it."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from selenium.common.exceptions import SessionNotCreatedException
from selenium.webdriver import Chrome

from jobs.models import Attempt
from tests.browser.chromium import BROWSER, DRIVER, chromium
from tests.browser.walk import PATIENCE_SECONDS, Walk


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder drives Chromium against a live server, or is skipped and says why."""
    missing = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium and chromedriver on the PATH")
    for item in items:
        if "tests/browser/" in item.nodeid:
            for mark in (pytest.mark.browser, pytest.mark.django_db(transaction=True), missing):
                item.add_marker(mark)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with ExitStack() as stack:
        try:
            driver = stack.enter_context(chromium())
        except SessionNotCreatedException as error:
            pytest.skip(f"Chromium does not start here: {error.msg}")
        driver.implicitly_wait(PATIENCE_SECONDS)
        yield driver


@pytest.fixture(autouse=True)
def the_page_is_left(browser: Chrome) -> Iterator[None]:
    """Leave the test's page while there is a database: some pages ask for more every second."""
    yield
    browser.get("about:blank")


def sign_in(browser: Chrome, url: str, user: User) -> None:
    """Open the overview as ``user``."""
    client = Client()
    client.force_login(user)
    browser.get(f"{url}/admin/login/")
    name = settings.SESSION_COOKIE_NAME
    browser.add_cookie({"name": name, "value": client.cookies[name].value})
    browser.get(f"{url}/admin/")


@pytest.fixture
def operator(browser: Chrome, live_server) -> Iterator[Chrome]:
    """A browser signed in as a superuser, on the overview; its log must be free of errors."""
    sign_in(browser, live_server.url, User.objects.create_superuser("root"))
    yield browser
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    Attempt.objects.all().delete()  # not managed by Django, so not flushed by it either
    assert errors == []


@pytest.fixture
def walk(operator: Chrome) -> Walk:
    """One task of an operator, from the overview on."""
    return Walk(operator)
