"""Tasks of access: to look and be offered no write, and to find out who changed what."""

from django.contrib.auth.models import Group, User
from django.test import Client
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from jobs.store.trail import Actor, acting_as
from tenants.actions import update_tenant
from tenants.console.groups import VIEWER, keep_groups
from tests import factories
from tests.browser.conftest import sign_in
from tests.browser.walk import Walk

MAX_CLICKS = 5


class TestAccess:
    def test_a_view_only_operator_sees_a_job_and_is_offered_no_write(
        self, browser: Chrome, live_server
    ) -> None:
        factories.make_job(name="close-books", payload={"sleep_ms": 7})
        keep_groups(plan=[])
        viewer = User.objects.create_user("viewer", is_staff=True)
        viewer.groups.add(Group.objects.get(name=VIEWER))
        sign_in(browser, live_server.url, viewer)
        walk = Walk(browser)
        walk.click("Jobs", within="#nav-sidebar")
        walk.click("close-books")
        walk.reads("you need the right to see payloads")
        words = {element.text.strip() for element in browser.find_elements(By.CSS_SELECTOR, "a, button")}
        assert not words & {"Pause", "Run now", "Cancel", "Delete", "Save"}
        assert walk.clicks <= MAX_CLICKS

    def test_who_changed_a_tenants_limit_is_found(self, walk: Walk) -> None:
        tenant = factories.make_tenant(slug="acme")
        with acting_as(Actor("operator", "alice")):
            update_tenant(tenant=tenant, max_in_flight=50)
        walk.click("Tenants", within="#nav-sidebar")
        walk.click("acme")
        walk.click("Who changed it")
        walk.reads("operator alice")
        walk.reads("max_in_flight")
        assert walk.clicks <= MAX_CLICKS

    def test_who_failed_to_sign_in_is_found(self, walk: Walk, live_server) -> None:
        Client(REMOTE_ADDR="198.51.100.7").post("/admin/login/", {"username": "root", "password": "wrong"})
        walk.click("Audit trail", within="#nav-sidebar")
        walk.reads("operator not signed in")
        assert walk.clicks <= MAX_CLICKS
