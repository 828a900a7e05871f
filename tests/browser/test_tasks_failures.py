"""Tasks with failures of one kind: their jobs are paused, with the reason, until somebody has looked."""

from jobs.models import Operation
from tests import factories
from tests.browser.test_tasks_second import is_fit
from tests.browser.walk import Walk

MAX_CLICKS = 5


class TestAGroupOfFailures:
    def test_has_its_jobs_paused_and_says_why(self, walk: Walk) -> None:
        job = factories.make_job(factories.make_tenant(slug="acme"), job_type="webhook", target="api.example")
        for trigger in factories.make_triggers(job, 2, "dead"):
            factories.make_attempt(trigger, "failed", error_code="http_503", http_status=503)
        walk.click("Failures", within="#nav-sidebar")
        walk.click("Pause their jobs")
        walk.reads("1 active job of tenant acme")
        is_fit(walk.browser)
        walk.type("input[name=reason]", "Incident 42.")
        walk.click("Pause their jobs", within="#act form")
        walk.shown("#progress")
        assert walk.clicks <= MAX_CLICKS
        assert Operation.objects.get().reason == "Incident 42."
