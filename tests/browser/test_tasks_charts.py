"""Tasks of an operator around tenants and time, from the overview on: none takes more than five clicks."""

from jobs.store.insight.series import samples
from tenants.models import Tenant
from tests import factories
from tests.browser.walk import Walk


class TestTasks:
    def test_why_are_a_tenants_jobs_late(self, walk: Walk) -> None:
        tenant = factories.make_tenant(slug="umbrella", max_in_flight=2)
        job = factories.make_job(tenant)
        for state in ("queued", "running", "pending", "pending"):
            factories.make_trigger(job, state)
        walk.click("Tenants")
        walk.click("umbrella")
        walk.reads("2 of its firings are due", within="#tenant-now")
        walk.reads("2 of 2 in flight", within="#tenant-now")
        assert walk.clicks <= 5
        # Further down its charts are fetched and drawn.
        walk.browser.execute_script("document.getElementById('charts').scrollIntoView()")
        walk.shown("#charts section")

    def test_queue_depth_over_time(self, walk: Walk) -> None:
        factories.make_triggers(factories.make_job(), 3, "queued")
        samples.take()
        walk.click("Charts")
        walk.click("1 hour")
        canvas = walk.shown("section[aria-labelledby=chart-depth] canvas")
        assert walk.browser.execute_script("return Boolean(Chart.getChart(arguments[0]))", canvas)
        walk.press("section[aria-labelledby=chart-depth] summary")
        walk.reads("3", within="section[aria-labelledby=chart-depth] tbody")
        assert walk.clicks <= 5

    def test_raise_a_tenants_quota(self, walk: Walk) -> None:
        factories.make_tenant(slug="umbrella", max_in_flight=12)
        walk.click("Tenants")
        walk.click("umbrella")
        walk.type("#id_max_in_flight", "50")
        walk.press("button[name=_save]")
        walk.reads("max_in_flight: 12 before, 50 now.")
        assert walk.clicks <= 5
        assert Tenant.objects.get().max_in_flight == 50
