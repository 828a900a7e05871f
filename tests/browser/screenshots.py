"""Takes the pictures in ``docs/images``, each in the light and in the dark, from a running demo::

    make demo    # prints the address and the password
    python -m tests.browser.screenshots http://127.0.0.1:8000 PASSWORD

Looks for a trigger of a flaky job that needed more than one attempt, so let the demo run for a minute first.
"""

import argparse
from pathlib import Path

from PIL import Image
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.chromium import HEIGHT, WIDTH, chromium, theme

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
#: Fits the pictures into the repository; the console has few colours.
COLOURS = 128
MAX_HEIGHT = 2000
#: Pictures of pages that need nothing but their address.
PAGES = {
    "jobs": "jobs/job/",
    "triggers": "jobs/trigger/",
    "dead-letters": "jobs/trigger/dead-letters/",
    "failures": "failures/",
    "charts": "charts/",
    "next-24-hours": "upcoming/",
    "workers": "workers/",
    "installation": "installation/",
    "second-factor": "second-factor/",
    "attempts": "jobs/attempt/",
    "audit-trail": "jobs/change/",
    "breakers": "jobs/breaker/",
    "leases": "jobs/lease/",
    "operations": "jobs/operation/",
    "job-types": "jobs/queue/",
    "targets": "jobs/targetrule/",
    "levers": "jobs/installation/",
    "playbooks": "playbooks/",
    "search": "search/?s=flaky",
    "tenants": "tenants/tenant/",
    "api-keys": "tenants/apikey/",
    "secrets": "tenants/secret/",
    "sessions": "tenants/operatorsession/",
    "operators": "auth/user/",
    "groups": "auth/group/",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url", help="of the web server, without a path")
    parser.add_argument("password", help="of the user admin")
    parser.add_argument("--job", default="flaky-partner", help="whose page and retried trigger are shown")
    parser.add_argument("--workflow", help="whose page and last run are shown; the demo has none")
    options = parser.parse_args()
    IMAGES.mkdir(parents=True, exist_ok=True)
    with chromium() as driver:
        log_in(driver, options.url, options.password)
        take(driver, "overview")
        for name, address in PAGES.items():
            driver.get(f"{options.url}/admin/{address}")
            take(driver, name)
        driver.get(f"{options.url}/admin/tenants/tenant/")
        driver.find_element(By.CSS_SELECTOR, "#result_list tbody th a").click()
        take(driver, "tenant")
        driver.get(f"{options.url}/admin/jobs/job/")
        driver.find_element(By.LINK_TEXT, options.job).click()
        take(driver, "job")
        page = driver.current_url
        driver.find_element(By.CSS_SELECTOR, "a[href$='/versions/']").click()
        take(driver, "job-versions")
        driver.get(page)
        driver.find_element(
            By.XPATH,
            "//table[@id='recent-triggers']//tr[contains(., '2 attempts') or contains(., '3 attempts')]//a",
        ).click()
        take(driver, "trigger")
        take_form(driver, options.url)
        if options.workflow:
            take_workflow(driver, options.url, options.workflow)


def take_form(driver: Chrome, url: str) -> None:
    """The form of a new job, with the preview of its schedule."""
    driver.get(f"{url}/admin/jobs/job/add/")
    for name, text in (("schedule_cron", "30 2 * * *"), ("schedule_timezone", "Europe/Berlin")):
        driver.find_element(By.NAME, name).send_keys(text)
    WebDriverWait(driver, 10).until(
        lambda d: "Europe/Berlin" in d.find_element(By.ID, "schedule-preview").text
    )
    take(driver, "job-form")


def take_workflow(driver: Chrome, url: str, name: str) -> None:
    """A workflow's page, and its last run with the first of its tasks."""
    driver.get(f"{url}/admin/jobs/workflow/")
    driver.find_element(By.LINK_TEXT, name).click()
    take(driver, "workflow")
    driver.find_element(By.CSS_SELECTOR, "#last-runs a").click()
    driver.find_element(By.CSS_SELECTOR, "#tasks th a").click()
    WebDriverWait(driver, 10).until(lambda d: d.find_elements(By.ID, "task-told"))
    take(driver, "workflow-run")


def log_in(driver: Chrome, url: str, password: str) -> None:
    driver.get(f"{url}/admin/login/?next=/admin/")
    take(driver, "sign-in")
    driver.find_element(By.NAME, "username").send_keys("admin")
    driver.find_element(By.NAME, "password").send_keys(password)
    driver.find_element(By.CSS_SELECTOR, "form [type=submit]").click()
    WebDriverWait(driver, 10).until(lambda d: d.current_url == f"{url}/admin/")


def take(driver: Chrome, name: str) -> None:
    """Save the whole length of the page as ``docs/images/<name>.png``."""
    WebDriverWait(driver, 10).until(
        lambda d: d.execute_script(
            "return document.readyState === 'complete' && document.fonts.status === 'loaded'"
        )
    )
    length = driver.execute_script(
        "return Math.max(...[document.documentElement, ...document.querySelectorAll('*')]"
        ".map(e => e.scrollHeight).filter(h => h < 4000))"
    )
    size = {
        "width": WIDTH,
        "height": max(HEIGHT, min(length, MAX_HEIGHT)),
        "deviceScaleFactor": 1,
        "mobile": False,
    }
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_script("window.scrollTo(0, 0)")
    for scheme, path in (("light", IMAGES / f"{name}.png"), ("dark", IMAGES / f"{name}-dark.png")):
        theme(driver, scheme)
        driver.save_screenshot(str(path))
        Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    theme(driver, "light")
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


if __name__ == "__main__":
    main()
