"""The playbooks within the console: each is shown, its links lead on, and no address leads to another file."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from jobs.admin.overview import playbooks
from jobs.core.judgement.reason import Playbook

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    """An operator who may only sign in."""
    client = Client()
    client.force_login(User.objects.create_user("viewer", is_staff=True))
    return client


def article(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode().partition('id="playbook"')[2].partition("</article>")[0]


class TestPlaybooks:
    def test_that_the_judgement_names_are_there(self) -> None:
        assert {playbook.value for playbook in Playbook} <= playbooks.names()

    def test_are_shown_with_links_that_lead_on(self, viewer: Client) -> None:
        seen, ahead = set(), {reverse("playbooks")}
        while ahead:
            address = ahead.pop()
            seen.add(address)
            links = set(re.findall(r'href="([^"]+)"', article(viewer, address)))
            assert all(link.startswith(reverse("playbooks")) for link in links)
            ahead |= links - seen
        assert len(seen) == len(playbooks.names()) + 1

    def test_are_rendered(self, viewer: Client) -> None:
        text = article(viewer, reverse("playbook", args=["jobs-are-not-running"]))
        assert "<h2>It is over when</h2>" in text
        page = viewer.get(reverse("playbook", args=["restore"])).content.decode()
        assert re.search(r"<title>\s*Restore", page)
        assert "<table>" in text
        assert "<code>docs/webhooks.md</code>" in article(
            viewer, reverse("playbook", args=["a-target-is-down"])
        )

    @pytest.mark.parametrize(
        "name", ["no-such", "..%2f..%2fREADME", "..%2Fdesign", "a-target-is-down.md", "%2e%2e", "readme"]
    )
    def test_of_other_names_are_not_there(self, name: str, viewer: Client) -> None:
        assert viewer.get(f"{reverse('playbooks')}{name}/").status_code == 404

    def test_ask_to_sign_in(self) -> None:
        assert Client().get(reverse("playbooks")).status_code == 302

    def test_that_did_not_come_with_the_installation_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(playbooks, "names", frozenset)
        assert playbooks.url_of("restore") is None
