"""The drills fit the playbooks and the rules. `make drill` shows that each can be carried out."""

import pytest

from chaos.drill import DRILLS
from chaos.drill.exercise import leads_to
from chaos.drill.prometheus import waits_seconds
from stage.processes import PROJECT_DIR

PLAYBOOKS = PROJECT_DIR / "docs" / "playbooks"
#: The restore answers no alert, and begins with a backup: docs/operations.md tells of it.
NO_DRILL = {"README", "restore"}


def test_every_playbook_has_one() -> None:
    pages = {page.stem for page in PLAYBOOKS.glob("*.md")} - NO_DRILL
    assert {drill.page for drill in DRILLS.values()} == pages


@pytest.mark.parametrize("name", DRILLS)
class TestADrill:
    def test_waits_for_an_alert_that_there_is(self, name: str) -> None:
        assert waits_seconds(DRILLS[name].alert) >= 0

    def test_is_of_a_page_that_names_its_alert(self, name: str) -> None:
        page = (PLAYBOOKS / f"{DRILLS[name].page}.md").read_text()
        assert f"`{DRILLS[name].alert}`" in page.partition("## Look")[0]


def test_a_page_is_led_to_by_itself_and_by_those_that_link_to_it() -> None:
    assert leads_to("docs/playbooks/restore.md", "restore")
    assert leads_to("docs/playbooks/jobs-are-not-running.md", "a-tenant-floods")
    assert not leads_to("docs/playbooks/restore.md", "a-tenant-floods")
