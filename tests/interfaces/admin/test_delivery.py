"""How pages and files reach a browser: compressed, kept where that is safe, nothing by another host's leave."""

import gzip
import re

import pytest
from django.test import Client
from django.urls import reverse

from tests.interfaces.admin.world import World

pytestmark = pytest.mark.django_db
GZIP = {"HTTP_ACCEPT_ENCODING": "gzip, deflate"}


def body(response: object) -> bytes:
    content = b"".join(response) if response.streaming else response.content  # type: ignore[attr-defined]
    return bytes(content)


class TestPages:
    def test_are_compressed_and_never_of_one_length(self, world: World, operator: Client) -> None:
        url = reverse("admin:jobs_job_changelist")
        answers = [operator.get(url, **GZIP) for _ in range(12)]
        assert {answer["Content-Encoding"] for answer in answers} == {"gzip"}
        assert b"close-books" in gzip.decompress(answers[0].content)
        assert len(answers[0].content) < len(operator.get(url).content) / 4
        assert len({len(answer.content) for answer in answers}) > 1

    def test_are_plain_where_the_browser_wants_them_so(self, world: World, operator: Client) -> None:
        assert "Content-Encoding" not in operator.get(reverse("admin:index"))

    def test_the_api_is_left_as_it_is(self) -> None:
        assert "Content-Encoding" not in Client().get("/api/schema", **GZIP)


class TestFiles:
    def addresses(self) -> list[str]:
        return re.findall(r'(?:src|href)="(/static/[^"]+)"', Client().get("/admin/login/").content.decode())

    def test_are_kept_for_a_day_by_an_address_that_has_their_content(self) -> None:
        found = self.addresses()
        assert any(address.startswith("/static/console/keyboard.js?v=") for address in found)
        for address in found:
            assert re.search(r"\?v=[0-9a-f]{8}$", address), address
            assert "max-age=86400" in Client().get(address)["Cache-Control"], address

    def test_texts_are_compressed_and_fonts_are_not(self) -> None:
        style = Client().get("/static/unfold/css/styles.css", **GZIP)
        assert style["Content-Encoding"] == "gzip"
        assert b"--color-primary" in gzip.decompress(body(style))
        font = Client().get("/static/unfold/fonts/inter/Inter-Regular.woff2", **GZIP)
        assert "Content-Encoding" not in font


class TestLogin:
    def test_leads_to_no_other_site_and_asks_for_the_name_first(self) -> None:
        page = Client().get("/admin/login/").content.decode()
        assert "Return to site" not in page
        assert re.search(r'<input[^>]*name="username"[^>]*autofocus', page)


class TestEveryPage:
    def test_has_one_main_part_and_a_way_past_the_menu(self, world: World, operator: Client) -> None:
        for page in (
            "index",
            "jobs_job_changelist",
            "jobs_job_add",
            "auth_user_add",
            "jobs_operation_changelist",
        ):
            text = operator.get(reverse(f"admin:{page}")).content.decode()
            assert (text.count("<main "), text.count("</main>")) == (1, 1), page
            assert 'class="skip-link" href="#content"' in text
        row = operator.get(world.url("jobs_trigger_change")).content.decode()
        assert (row.count("<main "), row.count("</main>")) == (1, 1)
        assert f'<code data-copy style="overflow-wrap: anywhere">{world.dead.id}</code>' in row
