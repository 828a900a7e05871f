"""Tasks on a job's page, from the overview: its history at a glance, run now, backfill, pause and resume."""

from datetime import datetime, timedelta

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from jobs.models import CatchUp, Job, Trigger
from tests import factories
from tests.browser.walk import PATIENCE_SECONDS, Walk

MOST_CLICKS = 5
HOUR = timedelta(hours=1)


@pytest.fixture
def job() -> Job:
    return factories.make_job(
        name="close-books",
        created_at=factories.now() - 3 * HOUR,
        interval=timedelta(minutes=10),
        payload={"sleep_ms": 1},
        overlap_policy="skip",
    )


def pick(walk: Walk, name: str, moment: datetime) -> None:
    """Set a picker of a date and time: its typed form differs with the browser's language."""
    field = walk.shown(f"#dialog input[name={name}]")
    walk.browser.execute_script("arguments[0].value = arguments[1]", field, f"{moment:%Y-%m-%dT%H:%M:%S}")


def confirm(walk: Walk) -> None:
    walk.press("#dialog button[type=submit]")


def settled(browser: Chrome, job: Job, status: str) -> None:
    WebDriverWait(browser, PATIENCE_SECONDS).until(lambda _: Job.objects.get(id=job.id).status == status)


class TestAJobsPage:
    def test_shows_its_history_at_a_glance(self, walk: Walk, job: Job) -> None:
        at = factories.now()
        for minutes in range(30, 5, -1):
            state = "dead" if minutes == 20 else "succeeded"
            factories.make_trigger(job, state, scheduled_for=at - timedelta(minutes=minutes))
        walk.click("Jobs", within="nav")
        walk.click("close-books")
        walk.reads("Of the last 25 firings, 96.0% of those that ran to an end succeeded")
        assert len(walk.browser.find_elements("css selector", ".firing")) == 25
        walk.press(".firing-dead")
        walk.reads("Given up")
        assert walk.clicks <= MOST_CLICKS

    def test_runs_it_with_another_payload(self, walk: Walk, job: Job) -> None:
        walk.click("Jobs", within="nav")
        walk.click("close-books")
        walk.click("Run now")
        walk.type("#dialog textarea[name=payload]", '{"sleep_ms": "soon"}')
        confirm(walk)
        walk.reads("sleep_ms: ", within="#dialog-form")
        assert not Trigger.objects.exists()
        walk.type("#dialog textarea[name=payload]", '{"sleep_ms": 7}')
        confirm(walk)
        walk.reads("Fired once more with its own payload.")
        assert Trigger.objects.get().payload == {"sleep_ms": 7}
        assert walk.clicks <= MOST_CLICKS

    def test_backfills_a_range_after_counting_it(self, walk: Walk, job: Job) -> None:
        walk.click("Jobs", within="nav")
        walk.click("close-books")
        walk.click("Backfill")
        at = factories.now()
        pick(walk, "start", at - 2 * HOUR)
        pick(walk, "end", at - HOUR)
        confirm(walk)
        walk.reads("6 firings, 0 exist.", within="#dialog")
        assert not CatchUp.objects.exists()
        confirm(walk)
        walk.reads("of 6 made", within="#backfills")
        assert CatchUp.objects.get().expected == 6
        assert walk.clicks <= MOST_CLICKS

    def test_is_paused_for_a_reason_and_resumed(self, walk: Walk, job: Job) -> None:
        walk.click("Jobs", within="nav")
        walk.click("close-books")
        walk.click("Pause")
        walk.type("#dialog input[name=reason]", "The partner moves.")
        pick(walk, "until", factories.now() + HOUR)
        confirm(walk)
        walk.reads("by operator root: The partner moves.", within="#pause")
        assert walk.clicks <= MOST_CLICKS
        paused = walk.clicks
        settled(walk.browser, job, "paused")
        walk.click("Resume")
        confirm(walk)
        settled(walk.browser, job, "active")
        assert walk.clicks - paused <= MOST_CLICKS
