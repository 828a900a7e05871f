"""A headless Chromium for tests and screenshots: Debian's, or the one on the PATH; nothing is downloaded."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

WIDTH, HEIGHT = 1400, 900
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """A window of 1400 x 900. Needs ``BROWSER`` and ``DRIVER``."""
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-dev-shm-usage",
        "hide-scrollbars",
        "no-proxy-server",
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_window_size(WIDTH, HEIGHT)
        yield driver
    finally:
        driver.quit()


def theme(browser: webdriver.Chrome, name: str) -> None:
    """Make the console look ``light`` or ``dark``, and wait until it does."""
    browser.execute_script("Alpine.$data(document.documentElement).adminTheme = arguments[0]", name)
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
