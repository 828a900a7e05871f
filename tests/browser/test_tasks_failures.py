"""Tasks with failures of one kind: their jobs are paused until a person has looked, or they are dismissed."""

from jobs.models import Operation, Trigger
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

    def test_is_dismissed_with_a_note(self, walk: Walk) -> None:
        job = factories.make_job(factories.make_tenant(slug="acme"), job_type="webhook", target="api.example")
        for trigger in factories.make_triggers(job, 2, "dead"):
            factories.make_attempt(trigger, "failed", error_code="http_503", http_status=503)
        walk.click("Failures", within="#nav-sidebar")
        walk.click("Dismiss them")
        walk.reads("2 dead letters of tenant acme")
        is_fit(walk.browser)
        walk.type("input[name=note]", "Incident 42: sent by hand.")
        walk.click("Dismiss them", within="#act form")
        walk.reads("Nothing died in the last 24h.")
        assert walk.clicks <= MAX_CLICKS
        assert Trigger.objects.filter(dismissed_note="Incident 42: sent by hand.").count() == 2
