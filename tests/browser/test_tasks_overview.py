"""Tasks of an operator that the overview serves: is it well, and are the workers saturated?"""

from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from jobs.explain.wellbeing import wellbeing
from jobs.models import Trigger
from jobs.store.insight import workers
from tests import factories
from tests.browser.walk import PATIENCE_SECONDS, Walk


class TestIsItWell:
    def test_the_first_sentence_says_so_and_says_when_it_is_over(self, walk: Walk) -> None:
        factories.take_lease(duration=factories.HOUR)
        workers.announce(name="w1", queues=["jobs.noop"], concurrency=4)
        trigger = factories.make_trigger(
            factories.make_job(job_type="webhook"), "queued", queued_at=factories.now() - factories.MINUTE
        )
        wellbeing.forget()
        walk.reads("Not well: no worker serves webhook: 1 queued, the oldest for 1 min", within="#sentence")
        Trigger.objects.filter(id=trigger.id).delete()
        wellbeing.forget()
        walk.reads("no worker serves webhook", within="#over")
        assert walk.clicks == 0

    def test_how_often_it_looks_is_remembered(self, walk: Walk) -> None:
        every = "#refresh-every"
        walk.press(f"{every} option[value='30']")
        walk.browser.refresh()
        assert walk.shown(every).get_property("value") == "30"
        walk.press(f"{every} option[value='5']")

    def test_it_says_when_the_console_does_not_answer(self, operator: Chrome) -> None:
        operator.execute_script("document.getElementById('figures').dataset.url = 'data:,'")
        WebDriverWait(operator, PATIENCE_SECONDS).until(
            lambda d: d.find_element("id", "refresh-failed").is_displayed()
        )
        operator.get_log("browser")  # the refusal of that address


class TestWorkers:
    def test_how_busy_they_are_is_one_click_away(self, walk: Walk) -> None:
        workers.announce(name="worker1@host-a", queues=["jobs.noop"], concurrency=4, busy=3)
        wellbeing.forget()
        walk.click("Workers")
        walk.reads("3 of 4", within="#workers")
        walk.click("Stop…", within="#workers")
        walk.reads("Stop the worker: worker1@host-a?")
        assert walk.clicks == 2
