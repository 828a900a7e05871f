"""Tasks of an operator that the job's form and the next 24 hours serve, each in five clicks or fewer."""

from datetime import timedelta

from selenium.webdriver.common.by import By

from jobs.models import Job
from tests import factories
from tests.browser.walk import Walk

MAX_CLICKS = 5


class TestAnOperator:
    def test_creates_a_cron_job_in_kolkata_and_sees_when_it_fires(self, walk: Walk) -> None:
        factories.make_tenant(slug="globex")
        walk.click("Jobs", within="#nav-sidebar, nav")
        walk.press("a[href$='/jobs/job/add/']")
        walk.choose("globex")
        walk.type("[name=name]", "close-books")
        walk.type("[name=job_type]", "noop")
        walk.type("[name=schedule_cron]", "30 2 * * 1-5")
        walk.type("[name=schedule_timezone]", "Asia/Kolkatta")
        walk.reads("Did you mean Asia/Kolkata", within="#schedule-preview")
        walk.type("[name=schedule_timezone]", "Asia/Kolkata")
        walk.reads("At 02:30, Monday through Friday, in Asia/Kolkata", within="#schedule-preview")
        walk.reads("02:30:00 +05:30", within="#preview-firings")
        walk.press("[name=_save]")
        walk.reads("close-books")
        job = Job.objects.get(name="close-books")
        assert (job.timezone, job.cron_expression) == ("Asia/Kolkata", "30 2 * * 1-5")
        assert walk.clicks <= MAX_CLICKS

    def test_sees_what_fires_in_the_next_day(self, walk: Walk) -> None:
        job = factories.make_job(next_fire_at=factories.now() + timedelta(minutes=5))
        walk.click("Next 24 hours")
        walk.reads("firings of 1 job in the next 24 hours", within="#upcoming-summary")
        walk.reads(job.name, within="#next")
        assert len(walk.browser.find_elements(By.CSS_SELECTOR, "#heat td[title]")) == 96
        assert walk.clicks <= MAX_CLICKS

    def test_settles_a_conflicting_edit_without_losing_a_word(self, walk: Walk) -> None:
        job = factories.make_job(name="close-books", retry_policy={"max_attempts": 2})
        walk.click("Jobs", within="#nav-sidebar, nav")
        walk.click("close-books")
        walk.type("[name=name]", "close-the-books")
        Job.objects.filter(id=job.id).update(version=2, priority=0)
        walk.press("[name=_save]")
        walk.reads("Version 2 was saved", within="#conflict")
        walk.press("[name=on_top_of]")
        walk.reads("changed successfully")
        saved = Job.objects.get(id=job.id)
        assert (saved.name, saved.priority) == ("close-the-books", 0)
        assert walk.clicks <= MAX_CLICKS
